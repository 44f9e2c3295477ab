"""A timm model at another image size or patch size, with the parameters that it had."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from posenc_mm.checks import check_sizes
from posenc_mm.resizing import Rule
from posenc_mm.timm.resizing_families import family_of, rule_for


class _Missing:
    """In place of a value that there was not: a class, of which a copy is itself."""


class Resized:
    """What :func:`resize` did, and how to undo it.

    Attributes:
        model: the model.
        names: the parameters whose shapes changed.
        rule: the rule of its tables of positions, as given or as the checkpoint's; ``None`` if
            every table went by its family's own.
    """

    def __init__(
        self,
        model: nn.Module,
        rule: str | Rule | None,
        tables: list[tuple[nn.Parameter, Tensor, str]],
        changes: list[tuple[nn.Module, bool, str, Any, Any]],
        optimizer: torch.optim.Optimizer | None,
    ) -> None:
        self.model, self.rule = model, rule
        self.names = tuple(name for _, _, name in tables)
        self._optimizer, self._changes = optimizer, changes
        # What was in place of what is: no copy is made, as the parameters now hold other tensors.
        self._tables = [(one, old, tuple(one.shape), name) for one, old, name in tables]
        self._undone = False

    def undo(self) -> None:
        """Put back, bit for bit, the tables and sizes from before; what they learned since is lost.

        Weights that kept their shape stay as they are now.

        Raises:
            ValueError: it was undone already, or sizes have changed since: undo the latest first.
        """
        if self._undone:
            raise ValueError("this resize was undone already, call resize again to redo it")
        own = {id(parameter) for parameter in self.model.parameters()}
        for parameter, _, shape, name in self._tables:
            if id(parameter) not in own or tuple(parameter.shape) != shape:
                raise ValueError(
                    f"{name} must be as this resize left it, of shape {shape}, got another "
                    f"parameter or shape {tuple(parameter.shape)}: undo what came later first"
                )
        for module, buffer, key, _, new in self._changes:
            now = vars(module).get(key, _Missing)
            if not buffer and not isinstance(new, dict) and now is not new and now != new:
                raise ValueError(
                    f"{key} of {type(module).__name__} must be {new}, as this resize left it, got "
                    f"{now}: undo what came later first"
                )
        for parameter, old, _, _ in self._tables:
            _put(parameter, old.to(parameter.device, parameter.dtype), self._optimizer)
        for change in self._changes:
            _put_back(*change)
        self._undone = True


def resize(
    model: nn.Module,
    size: int | tuple[int, int],
    *,
    patch_size: int | tuple[int, int] | None = None,
    rule: str | Rule | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Resized:
    """Give a timm model another image size, and resize its learned tables in place.

    Parameters stay the same objects, so that an optimizer keeps training them; a gradient that they
    hold is dropped, and a loss computed before can no longer be differentiated. Encodings that are
    attached follow by themselves. Resize before a model is compiled, or wrapped for several
    devices, and apart from it the copies of it (a moving average, a teacher).

    ===================================  ========================================================
    family                               what is resized
    ===================================  ========================================================
    VisionTransformer, DeiT, Eva, Beit   ``pos_embed``, bias tables, ``rope``; the patch kernel
    SwinTransformer (v1)                 bias tables; windows scale with the grid; the kernel
    NaFlexVit                            ``embeds.pos_embed``, or its rows and columns
    VisionTransformerSAM                 ``pos_embed``, the decomposed tables of global blocks
    Hiera                                ``pos_embed``; with ``pos_embed_win`` nothing has to be
    ===================================  ========================================================

    References:
        Touvron et al.: Fixing the train-test resolution discrepancy (2019),
        https://arxiv.org/abs/1906.06423; Beyer et al.: FlexiViT (2022),
        https://arxiv.org/abs/2212.08013

    Args:
        model: a model of one of these families; changed in place.
        size: height and width of the images, in pixels.
        patch_size: height and width of the patches, in pixels; as it is, unless given. The kernel
            is resized by the rule ``"flexivit"`` if that is ``rule``, else by ``"timm"``.
        rule: how tables of positions are resized, as in :func:`posenc_mm.resizing.resize_table`,
            and bias tables, as in :func:`posenc_mm.resizing.resize_bias_table`. By default what the
            model's checkpoint was made with, where its name tells: ``"dinov2"``, ``"dinov2_reg"``,
            ``"flexivit"``, ``"pe"``, ``"mae"`` or ``"deit"``, and a NaFlexVit's own settings; else
            ``"timm"``, what timm does itself: ``"geometric"`` for bias tables.
        optimizer: what it holds about the parameters that change shape is dropped, as moments of
            another shape would fail its next step. Without it, that is left to the caller.

    Returns:
        A record of what changed, with :meth:`~Resized.undo`.

    Raises:
        ValueError: the model is of none of these families, or cannot be resized with what it is
            made of; sizes that patches do not fill; a rule that is unknown or does not apply. The
            model is then as it was.

    Example:
        >>> import timm
        >>> model = timm.create_model("vit_tiny_patch16_224", depth=1, embed_dim=12)
        >>> resize(model, (160, 288)).names
        ('pos_embed',)
        >>> model(torch.zeros(1, 3, 160, 288)).shape
        torch.Size([1, 1000])
    """
    pixels = _two("size", size)
    patch = None if patch_size is None else _two("patch_size", patch_size)
    change, host = family_of(model)
    found = rule_for(model) if rule is None else rule
    before = [(module, _state(module)) for module in model.modules()]
    if isinstance(vars(model).get("feature_info"), list):
        # timm writes into its entries.
        host.feature_info = copy.deepcopy(host.feature_info)
    try:
        with torch.no_grad():
            values = change(host, pixels, patch, found)
    except BaseException:
        for module, state in before:
            _restore(module, state)
        raise
    for module, state in before:
        module._parameters.update(state["_parameters"])
    names = {id(one): name for name, one in model.named_parameters()}
    tables = []
    for module, name, value in values:
        parameter: Any = module._parameters[name]
        if value is not parameter:
            tables.append((parameter, parameter.data, names[id(parameter)]))
            _put(parameter, value.detach(), optimizer)
    return Resized(model, found, tables, _changes(before), optimizer)


def _two(name: str, value: int | tuple[int, int]) -> tuple[int, int]:
    numbers = check_sizes(name, value)
    if len(numbers) > 2:
        raise ValueError(f"{name} must be one number or a height and a width, got {name}={value}")
    return numbers[0], numbers[-1]


def _put(parameter: nn.Parameter, value: Tensor, optimizer: Any) -> None:
    parameter.grad = None
    # A loss of the last step that is still alive would hold this parameter's gradients to the old
    # shape; another dtype in between makes autograd forget it.
    other = torch.float32 if value.dtype == torch.float16 else torch.float16
    parameter.data = torch.empty(0, dtype=other, device=value.device)
    parameter.data = value
    if optimizer is not None:
        optimizer.state.pop(parameter, None)


def _state(module: nn.Module) -> dict[str, Any]:
    state = dict(vars(module))
    return {**state, **{name: dict(state[name]) for name in ("_parameters", "_buffers")}}


def _restore(module: nn.Module, state: dict[str, Any]) -> None:
    own = vars(module)
    for name in ("_parameters", "_buffers"):
        own[name].clear()
        own[name].update(state[name])
    for key in own.keys() - state.keys():
        del own[key]
    own.update(
        {key: value for key, value in state.items() if key not in ("_parameters", "_buffers")}
    )


def _changes(before: list[tuple[nn.Module, Any]]) -> list[tuple[nn.Module, bool, str, Any, Any]]:
    """Attributes and buffers that are not what they were: where, which, old, new."""
    found = []
    for module, state in before:
        own = vars(module)
        for buffer, olds, news in ((False, state, own), (True, state["_buffers"], own["_buffers"])):
            for key in [*news, *(olds.keys() - news.keys())]:
                old, new = olds.get(key, _Missing), news.get(key, _Missing)
                if old is not new and key not in ("_parameters", "_buffers"):
                    found.append((module, buffer, key, old, new))
    return found


def _put_back(module: nn.Module, buffer: bool, key: str, old: Any, new: Any) -> None:
    registry: dict[str, Any] = module._buffers if buffer else vars(module)
    now = registry.get(key, _Missing)
    if old is _Missing:
        registry.pop(key, None)
    elif isinstance(old, Tensor) and isinstance(now, Tensor):
        floating = old.is_floating_point()
        registry[key] = old.to(now.device, now.dtype if floating else old.dtype)
    elif isinstance(old, dict) and isinstance(new, dict) and isinstance(now, dict):
        # Others may have written there since, as a new head does in timm's notes on the model.
        kept = {name: value for name, value in now.items() if new.get(name, _Missing) == value}
        later = {name: value for name, value in now.items() if name not in kept}
        registry[key] = {**old, **later}
    else:
        registry[key] = old
