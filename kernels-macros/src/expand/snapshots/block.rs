//! Annotated `impl` blocks, and single methods.

use quote::quote;

use super::check;

#[test]
fn impl_block() {
    check(
        "impl_block",
        quote!("npu_fused_swiglu", when = self.act == Act::Silu),
        quote! {
            impl<L: Layer> Mlp<L> {
                const WIDTH: usize = 4;

                /// The user's docs.
                #[must_use]
                #[tracing::instrument]
                pub fn forward<const D: usize>(&self, mut x: Tensor<D>) -> Tensor<D> {
                    x = x * 2.0;
                    let gate = self.act.apply(self.gate_proj.forward(x.clone()));
                    self.down_proj.forward(gate * self.up_proj.forward(x))
                }

                fn other(&self) {}
            }
        },
    );
}

#[test]
fn impl_of_a_trait() {
    check(
        "impl_of_a_trait",
        quote!("npu_fused_rmsnorm", gating = after_norm, scale = none),
        quote! {
            impl Layer for Norm {
                type Output = Tensor<3>;
                fn forward(&self, mut x: Tensor<3>, gate: Tensor<3>) -> Self::Output {
                    x = x.clone() / (x.square().mean_dim(2) + self.eps).sqrt();
                    x * silu(gate)
                }
            }
        },
    );
}

#[test]
fn method() {
    check(
        "method",
        quote!("npu_fused_rmsnorm", weight = w, groups = many),
        quote! {
            fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
                grouped(hidden, self.group_size) * self.w.val() + self.eps
            }
        },
    );
}

#[test]
fn path() {
    check(
        "path",
        quote!(acme::soft_cap, cap = limit, layer = "SoftCap"),
        quote! {
            impl Head {
                pub fn forward<const D: usize>(&self, logits: Tensor<D>, bias: &Tensor<1>) -> Tensor<D> {
                    (logits / self.limit).tanh() * self.limit + bias.clone().unsqueeze()
                }
            }
        },
    );
}

#[test]
fn method_of_a_list_of_experts() {
    check(
        "method_of_a_list_of_experts",
        quote!("npu_fused_moe", experts = list),
        quote! {
            fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
                each(x, indices, routing, |e, x| self.experts[e].forward(x))
            }
        },
    );
}

#[test]
fn impl_sparse_block() {
    check(
        "impl_sparse_block",
        quote!(
            "npu_fused_moe",
            part = block,
            shared = plain,
            when = self.fast
        ),
        quote! {
            impl Block {
                pub fn forward<const D: usize>(&self, x: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
                    let logits = self.router.forward(x);
                    let shared = self.shared_experts.forward(x);
                    let y = self.experts.forward(x, choose(logits, self.top_k));
                    (y + shared, logits)
                }
            }
        },
    );
}

#[test]
fn impl_that_calls_up_first() {
    check(
        "impl_that_calls_up_first",
        quote!("npu_fused_swiglu"),
        quote! {
            impl Mlp {
                pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                    let up = self.up_proj.forward(x.clone());
                    self.down_proj.forward(silu(self.gate_proj.forward(x)) * up)
                }
            }
        },
    );
}

#[test]
fn impl_whose_order_is_out_of_sight() {
    check(
        "impl_whose_order_is_out_of_sight",
        quote!("npu_fused_swiglu", gate = gate_proj, up = up_proj),
        quote! {
            impl Mlp {
                pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                    self.down_proj.forward(self.hidden(x))
                }
            }
        },
    );
}
