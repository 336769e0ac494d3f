# SPDX-License-Identifier: MIT
"""The SwiGLU MLP as a differentiable JAX function, computed by the library on CPU.

    import swiglu_jax

    swiglu_jax.load("build/jax/swiglu_jax.so")
    out = swiglu_jax.mlp(x, gate, up, down)  # under jit and grad, too

x: float32 [.., hidden]; gate, up: [hidden, intermediate]; down: [intermediate, hidden]. First derivatives in reverse
mode; vmap runs one call after the other.
"""

import ctypes

import jax
import jax.numpy as jnp

SAVED_MULTIPLE = 64  # any_shape.hpp: saved_columns


def load(path):
    """Loads the compiled targets and makes them known to XLA."""
    library = ctypes.cdll.LoadLibrary(str(path))
    for name in ("SwigluForward", "SwigluBackward"):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")


def like(*arrays):
    return [jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in arrays]


def call_forward(x, gate, up, down):
    for name, a in (("x", x), ("gate", gate), ("up", up), ("down", down)):
        if a.dtype != jnp.float32:
            raise TypeError(f"swiglu: mlp: dtype of {name}: expected float32, got {a.dtype}")
    if x.ndim < 1 or gate.ndim != 2:
        raise TypeError(f"swiglu: mlp: expected x [.., hidden] and gate [hidden, intermediate], got {x.shape}, {gate.shape}")
    tokens = x.size // x.shape[-1]
    columns = (gate.shape[1] + SAVED_MULTIPLE - 1) // SAVED_MULTIPLE * SAVED_MULTIPLE
    saved = jax.ShapeDtypeStruct((tokens, 3 * columns), jnp.float32)
    return jax.ffi.ffi_call("SwigluForward", [*like(x), saved], vmap_method="sequential")(x, gate, up, down)


@jax.custom_vjp
def mlp(x, gate, up, down):
    """(silu(x gate) * (x up)) down."""
    return call_forward(x, gate, up, down)[0]


def forward(x, gate, up, down):
    out, saved = call_forward(x, gate, up, down)
    return out, (x, gate, up, down, saved)


def backward(residuals, grad_out):
    return tuple(
        jax.ffi.ffi_call("SwigluBackward", like(*residuals[:4]), vmap_method="sequential")(grad_out, *residuals)
    )


mlp.defvjp(forward, backward)


def einsums(x, w1, w3, w2):
    """The same in JAX's own operations, as the seed program has it."""
    h1 = jnp.einsum("sbh,hi->sbi", x, w1)
    h3 = jnp.einsum("sbh,hi->sbi", x, w3)
    h = jnp.einsum("sbi,sbi->sbi", jax.nn.silu(h1), h3)
    return jnp.einsum("sbi,ih->sbh", h, w2)
