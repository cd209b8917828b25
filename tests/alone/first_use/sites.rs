//! The names of sites, in reports, policies, plans and messages.

use crate::counting::alone;
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_kernels::registry::{self, section};
use burn_kernels::{fused_kernel, policy, report};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

#[derive(Module, Debug)]
struct Plain {
    weight: Param<Tensor<1>>,
}

#[derive(Module, Debug)]
struct Outer<T: Module> {
    weight: Param<Tensor<1>>,
    inner: T,
}

impl Plain {
    #[fused_kernel("npu_fused_rmsnorm", eps = 1e-6)]
    fn norm(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        x / (mean_square + 1e-6).sqrt() * self.weight.val().unsqueeze()
    }
}

impl<T: Module> Outer<T> {
    #[fused_kernel("npu_fused_rmsnorm", eps = 1e-6)]
    fn norm(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        x / (mean_square + 1e-6).sqrt() * self.weight.val().unsqueeze()
    }
}

impl Plain {
    #[fused_kernel("npu_fused_rmsnorm")]
    fn scaled(x: Tensor<2>, weight: Tensor<1>, eps: f64) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        x / (mean_square + eps).sqrt() * weight.unsqueeze()
    }
}

/// In the expansion of a macro, the source file does not name the type.
macro_rules! layer {
    ($name:ident) => {
        #[derive(Module, Debug)]
        struct $name {
            weight: Param<Tensor<1>>,
        }

        impl $name {
            #[fused_kernel("npu_fused_rmsnorm", eps = 1e-6)]
            fn norm(&self, x: Tensor<2>) -> Tensor<2> {
                let mean_square = x.clone().square().mean_dim(1);
                x / (mean_square + 1e-6).sqrt() * self.weight.val().unsqueeze()
            }
        }
    };
}
layer!(Made);

/// Returns a layer of each type, with weights of four elements.
fn layers() -> (Plain, Outer<Plain>) {
    let weight = || Param::from_tensor(Tensor::ones([4], &Device::flex()));
    let a = || Plain { weight: weight() };
    let b = Outer {
        weight: weight(),
        inner: a(),
    };
    (a(), b)
}

#[fused_kernel("npu_fused_attention", part = layer)]
#[derive(Module, Debug)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    num_heads: usize,
    num_kv_heads: usize,
}

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Unit {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

/// The name of a site.
const PLAIN: &str = concat!(module_path!(), "::Plain::norm");

#[test]
fn methods_of_two_types_are_two_sites() {
    let _alone = alone();
    report::reset();
    let (a, b) = layers();
    let x = || Tensor::<2>::ones([3, 4], &Device::flex());
    let policy = "all,-Plain::norm".parse().expect("a policy with a pattern");
    let _scope = policy::scope(policy);
    let _ = (a.norm(x()), b.norm(x()), b.inner.norm(x()));
    let report = report::report();
    let paths = |site: &str| -> Vec<(bool, u64)> {
        let rows = report.rows.iter().filter(|row| row.site == site);
        rows.filter_map(|row| Some((row.call.as_ref()?.implementation.is_some(), row.calls)))
            .collect()
    };
    assert_eq!(paths(PLAIN), [(false, 2)]);
    assert_eq!(paths(concat!(module_path!(), "::Outer::norm")), [(true, 1)]);

    // A table of a plan has this program's sites, and layers of the library only if the program calls them.
    let plan = burn_kernels::dispatch::plan(&Device::flex()).expect("a plan");
    let table = plan.to_string();
    assert!(table.contains("::Plain::norm"), "{table}");
    assert!(!table.contains("burn_kernels::nn"), "{table}");
    assert!(table.contains("`{:#}` lists them"), "{table}");
    assert!(format!("{plan:#}").contains("burn_kernels::nn"));
}

#[test]
fn records_in_the_built_file_name_the_type_of_a_method() {
    let weight = Tensor::ones([4], &Device::flex());
    let x = || Tensor::<2>::ones([3, 4], &Device::flex());
    let _ = Plain::scaled(x(), weight.clone(), 1e-6);
    let made = Made {
        weight: Param::from_tensor(weight),
    };
    let _ = made.norm(x());
    let here = registry::sites().filter(|site| site.spec().module == module_path!());
    let mut names: Vec<(String, String)> = here
        .map(|site| {
            let records = section::decode(site.record()).expect("a record");
            let item = records[0].json()["item"].as_str().expect("a text");
            let name = site.name();
            let name = name.strip_prefix(concat!(module_path!(), "::"));
            (name.expect("a name").to_owned(), item.to_owned())
        })
        .collect();
    names.sort();
    let expected = [
        ("Attention::forward", "Attention::forward"),
        ("Made::norm", "norm"),
        ("Outer::norm", "Outer::norm"),
        ("Plain::norm", "Plain::norm"),
        ("Plain::scaled", "Plain::scaled"),
        ("Unit::forward", "Unit::forward"),
    ];
    assert_eq!(
        names,
        expected.map(|(name, item)| (name.to_owned(), item.to_owned()))
    );
}

#[test]
fn operands_that_do_not_fit_name_the_layer_and_the_line_of_the_call() {
    let _alone = alone();
    let device = Device::flex();
    let (norm, _) = layers();
    let linear = |from, to| LinearConfig::new(from, to).init(&device);
    let attention = |heads, of_keys| Attention {
        q_proj: linear(8, 8),
        k_proj: linear(8, 8),
        v_proj: linear(8, 8),
        o_proj: linear(8, 8),
        num_heads: heads,
        num_kv_heads: of_keys,
    };
    let unit = Unit {
        gate_proj: linear(8, 6),
        up_proj: linear(8, 5),
        down_proj: linear(6, 8),
    };
    let x = || Tensor::<3>::ones([1, 2, 8], &device);
    let line = Cell::new(0);
    let calls: [(&str, &dyn Fn()); 4] = [
        ("Plain::norm", &|| {
            line.set(line!() + 1);
            drop(norm.norm(Tensor::ones([3, 5], &device)));
        }),
        ("Attention::forward", &|| {
            line.set(line!() + 1);
            drop(attention(3, 2).forward(x()));
        }),
        ("Attention::forward", &|| {
            line.set(line!() + 1);
            drop(attention(4, 2).forward(x()));
        }),
        ("Unit::forward", &|| {
            line.set(line!() + 1);
            drop(unit.forward(x()));
        }),
    ];
    for (site, call) in calls {
        let (said, place) = panic_of(call);
        let called = format!("called at {}:{}:", file!(), line.get());
        let site = format!("in `{}::{site}`", module_path!());
        assert!(said.contains(&site) && said.contains(&called), "{said}");
        assert_eq!(place, (file!().to_owned(), line.get()), "{said}");
    }
}

/// Returns the message of a panic, and its file and line.
fn panic_of(call: &dyn Fn()) -> (String, (String, u32)) {
    let place = Arc::new(Mutex::new(None));
    let hook = std::panic::take_hook();
    let seen = Arc::clone(&place);
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|at| (at.file().to_owned(), at.line()));
        *seen.lock().unwrap() = place;
    }));
    let panic = catch_unwind(AssertUnwindSafe(call));
    std::panic::set_hook(hook);
    let panic = panic.expect_err("the operands don't fit");
    let said = panic.downcast_ref::<String>().expect("a sentence").clone();
    let place = place.lock().unwrap().take();
    (said, place.expect("a place"))
}
