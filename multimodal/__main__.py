"""``python -m multimodal compare``: what positions in seconds are worth."""

import sys

from multimodal import compare

if __name__ == "__main__":
    if sys.argv[1:2] != ["compare"]:
        sys.exit("usage: python -m multimodal compare [--help]")
    compare.main(sys.argv[2:])
