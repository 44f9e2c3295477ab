"""Seeing every attention of a forward pass, by what it calls of torch."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from posenc_mm.additive import AdditiveEncoding
from posenc_mm.attention.attending import OBSERVERS
from posenc_mm.attention.calls import Call
from posenc_mm.bias import AttentionBias, ContextualBias
from posenc_mm.diagnostics.weights import AttentionMap, Weighed, of_call, of_kernel, wide
from posenc_mm.fronting import Fronted
from posenc_mm.rotary import RotaryEncoding

_ENCODINGS = (AdditiveEncoding, AttentionBias, ContextualBias, RotaryEncoding)
_ATTENTION = re.compile(r"(Attention|Attn)(?!.*(Bias|Norm|Mask|Output|Adapter|Embed))")
_CHANNELS = re.compile(r"XCA|ChannelAtt|CrossCovarianceAtt")
_PRODUCTS = ("matmul", "bmm", "__matmul__", "einsum")
_HOW = (
    "give it a fused attention that torch knows (timm: fused_attn=True; transformers: "
    'attn_implementation="sdpa"), or one written out as softmax(logits) @ values'
)


class _Running(NamedTuple):
    """A module that is being called, and how many maps there were when it began."""

    name: str
    module: nn.Module
    maps: int


class Watch(TorchFunctionMode):
    """Notes the weights of each attention that runs while it is on.

    A fused kernel shows no weights: they are computed once more from what it is given. Within
    :func:`posenc_mm.attend` they are computed from what that was asked, whatever way it takes.
    An attention written out in Python is known by its softmax: what the values are multiplied by
    is what became of it.

    Attributes:
        maps: found so far, in the order in which they ran.
        refused: why a layer's weights are not known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maps: list[AttentionMap] = []
        self.refused: dict[str, str] = {}
        self._running: list[_Running] = []
        self._attending = False
        self._thread = get_ident()
        self._soft: list[Tensor] = []
        self._within = 0

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        """Watch the calls of a model's modules within."""
        with ExitStack() as stack:
            for path, module in model.named_modules():
                name = ".".join(part for part in path.split(".") if part != "_orig_mod")
                begin, end = self._hooks(name, module)
                stack.callback(module.register_forward_pre_hook(begin).remove)
                stack.callback(module.register_forward_hook(end, always_call=True).remove)
            OBSERVERS.append(self._attend)
            stack.callback(OBSERVERS.remove, self._attend)
            stack.enter_context(self)
            yield

    @contextmanager
    def _attend(self, call: Call) -> Iterator[None]:
        """What :func:`posenc_mm.attend` was asked is noted, and not the kernels that it calls."""
        if self._attending or get_ident() != self._thread:
            yield
            return
        self._attending = True
        try:
            self._note(lambda: of_call(call))
            yield
        finally:
            self._attending = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self._attending:
            return func(*args, **kwargs)
        if name == "multi_head_attention_forward":
            self._note(lambda: _of_torch(func, args, kwargs))
        elif name == "scaled_dot_product_attention":
            self._note(lambda: of_kernel(*args, **kwargs))
        elif "attention" in name:
            self._refuse(f"it calls {name}, which shows no weights: {_HOW}")
        elif self._soft and name in _PRODUCTS:
            self._multiplied(args)
        out = func(*args, **kwargs)
        if name == "softmax":
            self._softened(out, args, kwargs)
        elif self._soft and isinstance(out, Tensor) and self._is_soft(args):
            self._soft.append(out)
        return out

    def _hooks(self, name: str, module: nn.Module) -> tuple[Callable[..., None], ...]:
        def begin(*_: Any) -> None:
            self._running.append(_Running(name, module, len(self.maps)))

        def end(*_: Any) -> None:
            running = self._running.pop()
            if len(self._running) < self._within:
                self._soft = []
            if len(self.maps) == running.maps and _is_attention(module):
                self.refused.setdefault(name, f"{type(module).__name__} shows no weights: {_HOW}")

        return begin, end

    def _note(self, weigh: Callable[[], Weighed]) -> None:
        kind = _kind(self._running[-1].module) if self._running else ""
        if _CHANNELS.search(kind):
            self._refuse(f"{kind} attends among channels, which have no places, not among tokens")
            return
        try:
            weights, visible = weigh()
        except ValueError as error:
            self._refuse(str(error))
            return
        name = self._running[-1].name if self._running else ""
        before = sum(m.layer.partition("#")[0].rstrip() == name for m in self.maps)
        label = f"{name} #{before + 1}" if before else name
        self.maps.append(AttentionMap(label, weights, visible))

    def _refuse(self, why: str) -> None:
        self.refused.setdefault(self._running[-1].name if self._running else "", why)

    def _softened(self, out: Tensor, args: Any, kwargs: Any) -> None:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if out.ndim == 4 and dim in (-1, 3):
            leaf = bool(self._running) and isinstance(self._running[-1].module, nn.Softmax)
            # What became of it counts until the module returns that has made it.
            self._within, self._soft = len(self._running) - leaf, [out]

    def _is_soft(self, args: Any) -> bool:
        given = {x.untyped_storage().data_ptr() for x in _tensors(args)}
        return any(x.untyped_storage().data_ptr() in given for x in self._soft)

    def _multiplied(self, args: Any) -> None:
        first, *others = _tensors(args)
        soft = self._soft[0]
        known = self._is_soft((first,))
        if first.ndim == 3 and len(first) == soft.shape[0] * soft.shape[1]:
            first = first.reshape(*soft.shape[:2], *first.shape[1:])
        fits = known and first.ndim == 4 and first.shape[0] == soft.shape[0]
        # A sink has a column of its own in the softmax, and no values.
        keys = first.shape[-1] if fits else 0
        if fits and soft.shape[-1] - keys in (0, 1) and any(keys in x.shape for x in others):
            self._soft = []
            self._note(lambda: (wide(first), None))


def _of_torch(func: Any, args: Any, kwargs: Any) -> Weighed:
    """``nn.MultiheadAttention`` gives its weights where it is asked for them."""
    whole = {**kwargs, "need_weights": True, "average_attn_weights": False}
    weights = func(*args, **whole)[1]
    return wide(weights if weights.ndim == 4 else weights.unsqueeze(0)), None


def _tensors(args: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for each in args:
        if isinstance(each, (tuple, list)):
            found += _tensors(each)
        elif isinstance(each, Tensor):
            found.append(each)
    return found


def _kind(module: nn.Module) -> str:
    kind: type = module._original if isinstance(module, Fronted) else type(module)
    return kind.__name__


def _is_attention(module: nn.Module) -> bool:
    return not isinstance(module, _ENCODINGS) and bool(_ATTENTION.search(_kind(module)))
