"""Twelve models of torchvision, timm and transformers: small, with random weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Case:
    """A model in inference mode, inputs by name, and which of their axes may be dynamic: the name
    of the dimension by axis, and the size that it has in `other` inputs."""

    model: torch.nn.Module
    inputs: Mapping[str, Any]
    dims: Mapping[str, Mapping[int, str]]


def images(batch: int = 2, size: int = 64) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def tokens(batch: int = 2, length: int = 12, most: int = 100) -> torch.Tensor:
    return torch.randint(1, most, (batch, length))


def vision(name: str, **how: Any) -> Case:
    import torchvision

    model = torchvision.models.get_model(name, weights=None, **how)
    return Case(model.eval(), {"x": images()}, {"x": {0: "batch"}})


def segmentation() -> Case:
    import torchvision

    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=5
    )
    return Case(model.eval(), {"input": images()}, {})


def timm_model(name: str, size: int, **how: Any) -> Case:
    import timm

    model = timm.create_model(name, pretrained=False, num_classes=10, **how)
    return Case(model.eval(), {"x": images(size=size)}, {"x": {0: "batch"}})


SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "vocab_size": 100,
}  # fmt: skip


def bert() -> Case:
    from transformers import BertConfig, BertModel

    inputs = {"input_ids": tokens(), "attention_mask": torch.ones(2, 12, dtype=torch.long)}
    inputs["attention_mask"][1, 8:] = 0
    names = {0: "batch", 1: "length"}
    return Case(BertModel(BertConfig(**SMALL)).eval(), inputs, dict.fromkeys(inputs, names))


def gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=64)
    config.use_cache = False
    return Case(
        GPT2LMHeadModel(config).eval(), {"input_ids": tokens()}, {"input_ids": {0: "batch"}}
    )


def llama() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**SMALL, num_key_value_heads=1, use_cache=False)
    model = LlamaForCausalLM(config).eval()
    return Case(model, {"input_ids": tokens()}, {"input_ids": {0: "batch", 1: "length"}})


def t5() -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=100, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, use_cache=False
    )
    inputs = {"input_ids": tokens(), "decoder_input_ids": tokens(length=5)}
    return Case(T5ForConditionalGeneration(config).eval(), inputs, {})


def whisper_encoder() -> Case:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        vocab_size=100, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=20, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    encoder = WhisperModel(config).get_encoder().eval()
    return Case(encoder, {"input_features": torch.randn(2, 8, 40)}, {})


CASES: dict[str, Callable[[], Case]] = {
    "resnet18": lambda: vision("resnet18"),
    "mobilenet_v3_small": lambda: vision("mobilenet_v3_small"),
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "convnext_tiny": lambda: vision("convnext_tiny"),
    "lraspp_mobilenet_v3_large": segmentation,
    "vit_tiny": lambda: timm_model("vit_tiny_patch16_224", 64, img_size=64, depth=3),
    "swin_tiny": lambda: timm_model("swin_tiny_patch4_window7_224", 56, img_size=56),
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "whisper_encoder": whisper_encoder,
}


def case(name: str, seed: int = 0) -> Case:
    """The model of that name, with the weights and inputs of a seed."""
    torch.manual_seed(seed)
    return CASES[name]()


def tensors(returned: Any) -> list[torch.Tensor]:
    """The tensors in what a model returns."""
    leaves: list[Any] = torch.utils._pytree.tree_leaves(returned)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def difference(got: Any, want: Any) -> float:
    """The largest difference of tensors by the largest absolute number that is expected."""
    pairs = list(zip(tensors(got), tensors(want), strict=True))
    assert pairs
    errors = [
        (g.double() - w.double()).abs().max() / w.double().abs().max().clamp_min(1e-30)
        for g, w in pairs
    ]
    assert all(g.shape == w.shape and g.dtype == w.dtype for g, w in pairs)
    return float(max(errors))
