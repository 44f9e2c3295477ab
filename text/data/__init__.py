"""Text to train on: the standard library's, any of your own, or a task made of letters."""

from text.data.base import Split, Text
from text.data.files import TextFiles
from text.data.needles import Needles
from text.data.stdlib import StandardLibrary

__all__ = ["Needles", "Split", "StandardLibrary", "Text", "TextFiles"]
