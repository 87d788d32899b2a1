"""Why a dimension cannot be padded."""

FOLLOWS = "{} has valid elements that follow from padded ones"
UNKNOWN = "nothing is known of how {} uses its elements"


class Mixes(Exception):
    """An op whose valid results depend on padded elements, or on the size; and in words why, with
    "{}" where its name goes."""

    def __init__(self, owner: object, why: str = FOLLOWS):
        super().__init__(owner, why)
