"""Diagnostics during a training, as callbacks of Lightning (extra: lightning; pictures: plot).

In YAML, or in a list given to a ``Trainer``::

    trainer:
      callbacks:
        - class_path: posenc_mm.lightning.AttentionDistance
          init_args:
            every: 5

A module says what there is to look at by a method
``subject(batch, samples) -> posenc_mm.diagnostics.Subject``, of the first ``samples`` samples of a
batch of validation or test.
"""

from posenc_mm.lightning.base import Diagnostic
from posenc_mm.lightning.callbacks import AttentionDistance, EffectiveContext, ShiftTest

__all__ = ["AttentionDistance", "Diagnostic", "EffectiveContext", "ShiftTest"]
