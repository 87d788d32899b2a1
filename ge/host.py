"""`ge.host`: programs launched one by one, as by a host."""

from ge.runtime.host.api import *  # noqa: F403
