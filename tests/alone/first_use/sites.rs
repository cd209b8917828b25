//! The names of sites, in reports, policies, plans and messages.

use crate::counting::alone;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use burn_kernels::{fused_kernel, policy, report};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
fn operands_that_do_not_fit_name_the_layer_and_the_line_of_the_call() {
    let _alone = alone();
    let (a, _) = layers();
    let wide = Tensor::<2>::ones([3, 5], &Device::flex());
    let line = line!() + 1;
    let panic = catch_unwind(AssertUnwindSafe(|| a.norm(wide))).expect_err("5 is not 4");
    let said = panic.downcast_ref::<String>().expect("a sentence");
    let expected = format!("called at {}:{line}:", file!());
    assert!(said.contains(&format!("in `{PLAIN}`")), "{said}");
    assert!(said.contains(&expected), "{said}");
}
