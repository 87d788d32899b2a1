"""What a process does once, whichever thread comes first: filling registries by imports."""

from collections.abc import Callable

from ge.dialects.support.forks import lock_held_while_forking


class Once:
    """A function that does something at the first call. Threads that call it meanwhile wait until
    it is done; what it does itself may call it again, which does nothing. Where it raises, the next
    call begins anew."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action, self.lock = action, lock_held_while_forking()
        self.is_done = self.is_running = False

    def __call__(self) -> None:
        if self.is_done:
            return
        with self.lock:
            if self.is_done or self.is_running:
                return
            self.is_running = True
            try:
                self.action()
                self.is_done = True
            finally:
                self.is_running = False
