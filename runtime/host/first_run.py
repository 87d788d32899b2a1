"""What the host does before a program runs for the first time at new sizes."""

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp, LaunchOp, TransferOp
from ge.dialects.targets.target import Target
from ge.runtime.device.session import main_of
from ge.runtime.host.schedule import HostWork


def first_run_us(module: ModuleOp, target: Target) -> dict[HostWork, float]:
    """Microseconds of the host to bind a program to sizes, by what it does: each launch is set up
    and its arguments are filled, each kernel is tiled once, each task is written to the device's
    queues. The costs are those of a host that feeds the device, and assumptions as they are."""
    launches = list[str]()
    copies = 0
    for op in main_of(module).walk():
        if isinstance(op, LaunchOp):
            launches.append(op.callee)
        copies += isinstance(op, CopyOp | BatchCopyOp | TransferOp)
    count, kernels = len(launches), len(set(launches))
    return {
        HostWork.SETUP: target.host_setup_us * count,
        HostWork.TILING: target.host_tiling_us * kernels
        + target.host_lookup_us * (count - kernels),
        HostWork.ARGUMENTS: target.host_arguments_us * count,
        HostWork.LAUNCH: target.host_capture_us * count,
        HostWork.COPY: target.host_capture_us * copies,
    }
