use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::quote;

use super::FirstUse;
use crate::contract::{Binding, CONTRACTS, Place};

/// The order of the fields `gate_proj`, `up_proj` and `down_proj`, with `?` if it is not known.
fn order_of(body: TokenStream) -> String {
    order(body, "npu_fused_swiglu", &["gate", "up", "down"])
}

/// The same of parameters that are one tensor each.
fn order_of_stacked(body: TokenStream) -> String {
    order(body, "npu_fused_moe", &["gate_up", "down"])
}

fn order(body: TokenStream, id: &str, operands: &[&str]) -> String {
    let contract = CONTRACTS.iter().find(|contract| contract.id == id).unwrap();
    let bindings = operands.iter().map(|name| Binding {
        operand: {
            let mut all = contract.layer.operands.iter();
            all.find(|operand| operand.name == *name).unwrap()
        },
        place: Place::Field(Ident::new(&format!("{name}_proj"), Span::call_site())),
    });
    let bindings: Vec<Binding> = bindings.collect();
    let body = Group::new(Delimiter::Brace, body);
    let found = FirstUse::of_body(&body, &bindings, contract.flow);
    let doubt = if found.is_known() { "" } else { " ?" };
    format!("{}{doubt}", found.operands().join(" "))
}

#[test]
fn a_call_comes_after_its_receiver_and_arguments() {
    let nested = quote!(
        self.down_proj
            .forward(silu(self.gate_proj.forward(x)) * self.up_proj.forward(x))
    );
    assert_eq!(order_of(nested), "gate up down");
    let other = quote!(
        self.down_proj
            .forward(self.up_proj.forward(x) * silu(self.gate_proj.forward(x)))
    );
    assert_eq!(order_of(other), "up gate down");
    let chain = quote! {
        let up = self.up_proj.forward(x.clone()).mul(silu(self.gate_proj.forward(x)));
        self.down_proj.forward(up)
    };
    assert_eq!(order_of(chain), "up gate down");
    let path = quote! {
        let up = Linear::forward(&self.up_proj, x);
        let gate = apply(&self.gate_proj, x);
        self.down_proj.forward(silu(gate) * up)
    };
    assert_eq!(order_of(path), "up gate down");
}

#[test]
fn a_reference_and_a_closure_are_followed_to_where_they_are_used() {
    for body in [
        quote! {
            let gate = |x| silu(self.gate_proj.forward(x));
            let up = self.up_proj.forward(x);
            self.down_proj.forward(gate(x) * up)
        },
        quote! {
            let Self { gate_proj: gate, up_proj, down_proj } = &*self;
            let up = up_proj.forward(x);
            down_proj.forward(gate.forward(x) * up)
        },
        quote! {
            let ((gate, _), up) = ((&self.gate_proj, 1), (&self.up_proj).clone());
            let up = { let x = x; up.forward(x) };
            self.down_proj.forward(gate.forward(x) * up)
        },
        quote! {
            let this = self;
            let parts = vec![this.up_proj.forward(x), this.gate_proj.forward(x)];
            this.down_proj.forward(unit(parts))
        },
        quote! {
            assert_eq!(x.dims()[2], self.width, "{}", self.width);
            let up = self.up_proj.forward(x)?;
            let y = Hidden { gate: self.gate_proj.forward(x), up };
            return self.down_proj.forward(y.product());
        },
        quote! {
            let up = if wide { self.up_proj.forward(x) } else { -self.up_proj.forward(x) };
            self.down_proj.forward(self.gate_proj.forward(x) * up)
        },
        // A helper that can't hide what is left.
        quote! {
            let up = self.up_proj.forward(x);
            let gate = self.gate_proj.forward(x);
            self.down_proj.forward(self.activate(gate) * up)
        },
    ] {
        assert_eq!(order_of(body.clone()), "up gate down", "{body}");
    }
}

#[test]
fn what_only_the_running_program_can_tell_is_not_known() {
    for body in [
        quote!(self.down_proj.forward(self.hidden(x))),
        quote!(
            self.down_proj
                .forward(hidden(&self.gate_proj, &self.up_proj, x))
        ),
        quote!(self.down_proj.forward(hidden(self, x))),
        quote!(down(
            self.up_proj.forward(x),
            unit!(self.gate_proj, x),
            &self.down_proj
        )),
        quote! {
            let y = match x.dims()[0] {
                0 => self.up_proj.forward(x),
                _ => self.gate_proj.forward(x),
            };
            self.down_proj.forward(self.gate_proj.forward(x) * self.up_proj.forward(x) * y)
        },
        quote! {
            let up = wide.then(|| self.up_proj.forward(x));
            self.down_proj.forward(self.gate_proj.forward(x) * up)
        },
        quote! {
            let up = wide && all(self.up_proj.forward(x));
            self.down_proj.forward(self.gate_proj.forward(x) * up)
        },
        quote! {
            let up = Adapter::new(&self.up_proj);
            let gate = self.gate_proj.forward(x);
            self.down_proj.forward(up.forward(x) * gate)
        },
        quote! {
            let gate = x.matmul(self.gate_proj.weight.val());
            let up = self.up_proj.forward(x);
            self.down_proj.forward(gate + self.gate_proj.bias.val() * up)
        },
        quote! {
            let Ok(up) = self.up(x) else { return self.gate_proj.forward(x) };
            self.down_proj.forward(self.gate_proj.forward(x) * self.up_proj.forward(x))
        },
        // Before what it takes the result of.
        quote! {
            let down = self.down_proj.forward(eye);
            (self.gate_proj.forward(x) * self.up_proj.forward(x)).matmul(down)
        },
        // Half typed.
        quote!(let up = self.up_proj.forward(x); self.gate_proj.forward(x) * ),
    ] {
        let found = order_of(body.clone());
        assert!(found.ends_with("down ?"), "{found}: {body}");
    }
}

#[test]
fn a_loop_uses_its_operands_in_its_first_round() {
    let looped = quote! {
        for e in 0..self.num_experts {
            if rows(e).is_empty() { continue; }
            let down = self.down_proj.val().narrow(0, e, 1);
            y = y + unit(x.matmul(self.gate_up_proj.val().narrow(0, e, 1))).matmul(down);
        }
        y
    };
    assert_eq!(order_of_stacked(looped), "down gate_up");
    let slices = quote! {
        let rows = self.gate_up_proj.shape();
        x.matmul(self.down_proj.clone().slice(rows)).matmul(self.gate_up_proj.val())
    };
    assert_eq!(order_of_stacked(slices), "gate_up down");
    let dereferenced = quote! {
        let down = (*self.down_proj).clone();
        x.matmul(self.gate_up_proj.val()).matmul(down)
    };
    assert_eq!(order_of_stacked(dereferenced), "down gate_up");
    // A reference to a parameter becomes one to a tensor before the call, or in it.
    let converted = quote!(apply(&self.down_proj, self.gate_up_proj.val(), x));
    assert_eq!(order_of_stacked(converted), "gate_up down ?");
    let annotated = quote! {
        let down: &Tensor<3> = &self.down_proj;
        x.matmul(self.gate_up_proj.val()).matmul(down.clone())
    };
    assert!(order_of_stacked(annotated).ends_with('?'));
    // A function that gets a closure may call it, or not.
    let given_away = quote!(each(x, |e, x| x
        .matmul(self.down_proj.val())
        .matmul(self.gate_up_proj.val())));
    assert_eq!(order_of_stacked(given_away), "down gate_up ?");
}
