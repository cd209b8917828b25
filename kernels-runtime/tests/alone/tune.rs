//! Tests of sites that tune themselves. Kernels and bodies differ by sleeps that are much longer than the rest.

use crate::counting::alone;
use crate::declared::sites;
use burn::tensor::{Device, Distribution, Tensor, Tolerance};
use kernels_runtime::__private::{At, custom, once, rms_norm};
use kernels_runtime::declare_kernel;
use kernels_runtime::dispatch::Reason;
use kernels_runtime::kernel::{
    CapabilityRange, CustomKey, DeviceKinds, FloatType, Gradient, Implementation, KernelSpec,
    Launch, Operands, Tensors, Visitor,
};
use kernels_runtime::live::{self, Sampling, SamplingGuard};
use kernels_runtime::policy::{self, Policy, ScopeGuard};
use kernels_runtime::registry::Site;
use kernels_runtime::report;
use kernels_runtime::tune::{self, Choice, TuneRow};
use std::cell::Cell;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The number of calls that are measured for a class.
const MEASURED: usize = 4;

const LONG: Duration = Duration::from_millis(30);

const KEY: CustomKey = CustomKey::new("double", &[]);

const BASE: Implementation = Implementation {
    device: DeviceKinds::CPU,
    name: "quick",
    dtypes: &FloatType::ALL,
    gradient: Gradient::Kernel,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    accepts: |key| key.op() == "double",
    limits: None,
    operators: None,
    launch: Launch::Custom,
};

macro_rules! kernels {
    ($($name:ident = $id:literal: $implementation:expr;)+) => {
        $(declare_kernel! {
            /// A kernel that computes `2 x`.
            pub static $name = KernelSpec {
                id: $id,
                op: KEY.op(),
                version: 1,
                summary: "twice x",
                implementations: &[$implementation],
            };
        })+
    };
}

kernels! {
    QUICK = "acme_quick": BASE;
    SLOW = "acme_slow": Implementation { name: "slow", ..BASE };
}

declare_kernel! {
    /// A kernel that computes `2 x` in several ways.
    pub static SEVERAL = KernelSpec {
        id: "acme_several",
        op: KEY.op(),
        version: 1,
        summary: "twice x",
        implementations: &[
            Implementation { name: "slow", ..BASE },
            BASE,
            Implementation { name: "elsewhere", device: DeviceKinds::NPU, ..BASE },
            Implementation { name: "without numbers", dtypes: &[], ..BASE },
        ],
    };
}

sites! {
    YIELDS: "acme_slow", SemanticsKey::Custom(KEY);
    KEEPS: "acme_quick", SemanticsKey::Custom(KEY);
    CLASSES: "acme_quick", SemanticsKey::Custom(KEY);
    REQUESTED: "acme_slow", SemanticsKey::Custom(KEY);
    STRICT: "acme_slow", SemanticsKey::Custom(KEY);
    UNTUNED: "acme_slow", SemanticsKey::Custom(KEY);
    SEVERAL_WAYS: "acme_several", SemanticsKey::Custom(KEY);
    PREFERRED_WAY: "acme_several", SemanticsKey::Custom(KEY);
    OUTER: "acme_quick", SemanticsKey::Custom(KEY);
    INNER: "acme_quick", SemanticsKey::Custom(KEY);
    PANICS: "acme_quick", SemanticsKey::Custom(KEY);
    VERIFIED: "acme_quick", SemanticsKey::Custom(KEY);
    WRITTEN: "acme_slow", SemanticsKey::Custom(KEY);
    STEADY: "acme_slow", SemanticsKey::Custom(KEY);
    READ: "acme_slow", SemanticsKey::Custom(KEY);
    OF_ANOTHER_DEVICE: "acme_slow", SemanticsKey::Custom(KEY);
    OF_ANOTHER_RELEASE: "acme_slow", SemanticsKey::Custom(KEY);
    DEEP: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    WEIGHTED: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
}

#[derive(Clone)]
struct Double(Tensor<2>);

impl Tensors for Double {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.0);
    }
}

impl Operands for Double {
    type Output = Tensor<2>;

    fn reference(self) -> Tensor<2> {
        self.0 * 2.0
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<2> {
        KERNELS.set(KERNELS.get() + 1);
        if implementation.name == "slow" {
            sleep(LONG);
        }
        self.0 * 2.0
    }
}

thread_local! {
    /// The numbers of times that kernels and bodies ran.
    static KERNELS: Cell<usize> = const { Cell::new(0) };
    static BODIES: Cell<usize> = const { Cell::new(0) };
}

/// Returns how often kernels and bodies ran in a call.
fn runs(call: impl FnOnce()) -> (usize, usize) {
    let before = (KERNELS.get(), BODIES.get());
    call();
    (KERNELS.get() - before.0, BODIES.get() - before.1)
}

fn scopes(policy: &str) -> (ScopeGuard, SamplingGuard) {
    let policy = policy.parse().expect("a policy");
    (policy::scope(policy), live::scope(Sampling::off()))
}

/// Calls a site with a body that takes `takes`, and checks the result and the gradient.
fn call(site: &'static Site, shape: [usize; 2], takes: Duration) {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::random(shape, Distribution::Default, &device).require_grad();
    // The call is inside the program's graph, whose parts a measurement must not use up.
    let inner = x.clone() * 3.0;
    let y = custom(At::new(site), Double(inner), |Double(x)| {
        BODIES.set(BODIES.get() + 1);
        sleep(takes);
        x * 2.0
    });
    let expected = (x.clone() * 6.0).into_data();
    let tolerance = Tolerance::relative(1e-6);
    y.clone()
        .into_data()
        .assert_approx_eq::<f32>(&expected, tolerance);
    let gradient = x.grad(&y.sum().backward()).expect("a gradient");
    let expected = Tensor::<2>::full(shape, 6.0, &device.inner()).into_data();
    gradient
        .into_data()
        .assert_approx_eq::<f32>(&expected, tolerance);
}

fn rows(site: &Site) -> Vec<TuneRow> {
    let rows = tune::report().rows;
    rows.into_iter()
        .filter(|row| row.site == site.name())
        .collect()
}

/// Returns the numbers of calls of a site that ran a kernel and that took the reference because it is faster.
fn counts(site: &Site) -> (u64, u64) {
    let rows = report::report().rows.into_iter();
    let calls = rows.filter(|row| row.site == site.name());
    calls.fold((0, 0), |(kernel, tuned), row| {
        match row.call.and_then(|call| call.reason) {
            None => (kernel + row.calls, tuned),
            Some(Reason::Tuned) => (kernel, tuned + row.calls),
            Some(other) => panic!("{other}"),
        }
    })
}

#[test]
fn a_slower_kernel_yields_to_the_body_with_right_results_and_gradients() {
    let _alone = alone();
    let _scopes = scopes("tune");
    for _ in 0..MEASURED {
        // The program's own result is the kernel's, after one run of each.
        assert_eq!(runs(|| call(&YIELDS, [4, 8], Duration::ZERO)), (2, 1));
    }
    for _ in 0..3 {
        assert_eq!(runs(|| call(&YIELDS, [4, 8], Duration::ZERO)), (0, 1));
    }
    assert_eq!(counts(&YIELDS), (MEASURED as u64, 3));
    let found = rows(&YIELDS);
    let [row] = &found[..] else {
        panic!("one class: {found:?}");
    };
    assert_eq!(row.choice, Some(Choice::Reference));
    assert_eq!(row.measured, MEASURED);
    assert_eq!(row.tensors, ["4x8"]);
    assert!(
        row.kernel_ms.unwrap() >= LONG.as_secs_f64() * 1e3,
        "{row:?}"
    );
    let shown = format!("{:#}", tune::report());
    assert!(
        shown.contains("reference, ") && shown.contains("times as fast"),
        "{shown}"
    );
    let shown = format!("{:#}", report::report());
    assert!(
        shown.contains("reference: the reference is faster, as measured"),
        "{shown}"
    );
}

#[test]
fn a_faster_kernel_stays() {
    let _alone = alone();
    let _scopes = scopes("all,tune");
    for _ in 0..MEASURED {
        assert_eq!(runs(|| call(&KEEPS, [4, 8], LONG)), (2, 1));
    }
    assert_eq!(runs(|| call(&KEEPS, [4, 8], LONG)), (1, 0));
    assert_eq!(counts(&KEEPS), (MEASURED as u64 + 1, 0));
    let choices: Vec<_> = rows(&KEEPS).iter().map(|row| row.choice).collect();
    assert_eq!(choices, [Some(Choice::Kernel)]);
}

/// Returns the implementations that ran, with the numbers of calls.
fn ways(site: &Site) -> Vec<(&'static str, u64)> {
    let rows = report::report().rows.into_iter();
    let calls = rows.filter(|row| row.site == site.name());
    calls
        .filter_map(|row| Some((row.call?.implementation?, row.calls)))
        .collect()
}

#[test]
fn the_faster_of_several_implementations_is_kept() {
    let _alone = alone();
    let _scopes = scopes("tune");
    // Each is measured in its turn, and gives the program its results meanwhile.
    for _ in 0..2 * MEASURED {
        assert_eq!(runs(|| call(&SEVERAL_WAYS, [4, 8], LONG)), (2, 1));
    }
    for _ in 0..3 {
        assert_eq!(runs(|| call(&SEVERAL_WAYS, [4, 8], LONG)), (1, 0));
    }
    let measured = MEASURED as u64;
    assert_eq!(
        ways(&SEVERAL_WAYS),
        [("slow", measured), ("quick", measured + 3)]
    );
    let found = rows(&SEVERAL_WAYS);
    let instead: Vec<_> = found
        .iter()
        .map(|row| (row.implementation.as_str(), row.instead.as_deref()))
        .collect();
    assert_eq!(instead, [("slow", Some("quick")), ("quick", None)]);
    let shown = format!("{:#}", tune::report());
    assert!(shown.contains("quick in place of slow"), "{shown}");
    // A file has the choices of both.
    let file = format!("burn-kernels-tuned-ways-{}.toml", std::process::id());
    let file = std::env::temp_dir().join(file);
    tune::report().write(&file).unwrap();
    tune::reset();
    let _scopes = scopes(&format!("tune:{}", file.display()));
    assert_eq!(runs(|| call(&SEVERAL_WAYS, [4, 8], LONG)), (1, 0));
    assert_eq!(ways(&SEVERAL_WAYS)[1], ("quick", measured + 4));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn an_implementation_that_the_policy_prefers_has_no_rival() {
    let _alone = alone();
    let _scopes = scopes("tune,prefer:slow");
    for _ in 0..MEASURED + 2 {
        call(&PREFERRED_WAY, [4, 8], 3 * LONG);
    }
    assert_eq!(ways(&PREFERRED_WAY), [("slow", MEASURED as u64 + 2)]);
    assert_eq!(rows(&PREFERRED_WAY).len(), 1);
}

#[test]
fn classes_have_rows_up_to_a_power_of_two_the_last_axis_and_the_mode() {
    let _alone = alone();
    let _scopes = scopes("tune");
    for shape in [[3, 8], [4, 8], [5, 8], [8, 8], [4, 9]] {
        call(&CLASSES, shape, Duration::ZERO);
    }
    let plain = Tensor::<2>::ones([4, 8], &Device::flex());
    let y = custom(At::new(&CLASSES), Double(plain), |Double(x)| x * 2.0);
    assert_eq!(y.into_data().iter::<f32>().next(), Some(2.0));
    let found: Vec<_> = rows(&CLASSES)
        .into_iter()
        .map(|row| (row.mode.to_string(), row.tensors.join(" "), row.measured))
        .collect();
    let expected = [
        ("inference", "4x8", 1),
        ("training", "4x8", 2),
        ("training", "4x9", 1),
        ("training", "8x8", 2),
    ];
    assert_eq!(
        found,
        expected.map(|(mode, tensors, measured)| (mode.to_owned(), tensors.to_owned(), measured))
    );
}

#[test]
fn requested_kernels_and_untuned_policies_keep_the_kernel() {
    let _alone = alone();
    for (site, policy) in [
        (&REQUESTED, "all,+acme_slow,tune"),
        (&STRICT, "all,strict:tuned,tune"),
        (&UNTUNED, "all"),
    ] {
        let _scopes = scopes(policy);
        for _ in 0..=MEASURED {
            assert_eq!(
                runs(|| call(site, [4, 8], Duration::ZERO)),
                (1, 0),
                "{policy}"
            );
        }
        assert!(rows(site).is_empty(), "{policy}");
    }
    // A policy without the word keeps a kernel that another has found slower.
    {
        let _scopes = scopes("tune");
        for _ in 0..MEASURED {
            call(&UNTUNED, [4, 8], Duration::ZERO);
        }
        assert_eq!(runs(|| call(&UNTUNED, [4, 8], Duration::ZERO)), (0, 1));
    }
    let _scopes = scopes("all");
    assert_eq!(runs(|| call(&UNTUNED, [4, 8], Duration::ZERO)), (1, 0));
}

#[test]
fn a_deterministic_policy_measures_nothing() {
    let _alone = alone();
    for policy in ["tune,deterministic", "tune"] {
        let _scopes = scopes(policy);
        let expected = if policy == "tune" { (2, 1) } else { (1, 0) };
        for _ in 0..MEASURED {
            let runs = runs(|| call(&STEADY, [4, 8], Duration::ZERO));
            assert_eq!(runs, expected, "{policy}");
        }
    }
    // Neither policy knows what the other does.
    let kept = |row: &TuneRow| {
        row.kept
            .as_ref()
            .is_some_and(|why| why.contains("deterministic"))
    };
    let found = rows(&STEADY);
    assert_eq!(found.len(), 2);
    assert_eq!(found.iter().filter(|row| kept(row)).count(), 1, "{found:?}");
    let _scopes = scopes("deterministic,tune");
    assert_eq!(runs(|| call(&STEADY, [4, 8], Duration::ZERO)), (1, 0));
}

#[test]
fn sites_inside_a_measured_body_are_neither_counted_nor_tuned() {
    let _alone = alone();
    let _scopes = scopes("tune");
    let x = Tensor::<2>::ones([2, 2], &Device::flex());
    for _ in 0..=MEASURED {
        let _ = custom(At::new(&OUTER), Double(x.clone()), |outer| {
            sleep(LONG);
            custom(At::new(&INNER), outer, Operands::reference)
        });
    }
    assert_eq!(counts(&OUTER), (MEASURED as u64 + 1, 0));
    assert_eq!(counts(&INNER), (0, 0));
    assert!(rows(&INNER).is_empty());
}

#[test]
fn a_body_that_cannot_be_run_apart_keeps_the_kernel_and_the_report_says_so() {
    let _alone = alone();
    let _scopes = scopes("tune");
    let x = Tensor::<2>::ones([2, 2], &Device::flex());
    for _ in 0..2 {
        let y = custom(At::new(&PANICS), Double(x.clone()), |_| panic!("not twice"));
        assert_eq!(y.into_data().iter::<f32>().next(), Some(2.0));
    }
    let kept = rows(&PANICS)[0].kept.clone().unwrap();
    assert!(
        kept.contains("panics") && kept.contains("not twice"),
        "{kept}"
    );
    let shown = format!("{:#}", tune::report());
    assert!(shown.contains("kernel, not measured: it panics"), "{shown}");

    // The weight is computed under autodiff, so the body's backward pass would use up the program's graph.
    let device = Device::flex().autodiff();
    let scale = Tensor::<1>::ones([8], &device).require_grad();
    let x = Tensor::<2>::random([4, 8], Distribution::Default, &device);
    let y = norm(&DEEP, x, &(scale.clone() * 2.0));
    assert!(scale.grad(&y.sum().backward()).is_some());
    let kept = rows(&DEEP)[0].kept.clone().unwrap();
    assert!(kept.contains("computed under autodiff"), "{kept}");
}

/// Calls a site of a norm, whose body captures the weight.
fn norm(site: &'static Site, x: Tensor<2>, weight: &Tensor<1>) -> Tensor<2> {
    let body = |x: Tensor<2>| {
        let mean = x.clone().square().mean_dim(1);
        x / (mean + 1e-6).sqrt() * weight.clone().unsqueeze()
    };
    let read = || Some(weight.clone());
    rms_norm(At::new(site), x, &read, 1e-6, None, &mut once(body))
}

#[test]
fn captured_weights_have_the_same_gradients_while_and_after_a_site_is_measured() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::random([4, 8], Distribution::Default, &device).require_grad();
    let weight = Tensor::<1>::random([8], Distribution::Default, &device).require_grad();
    // The second call is measured while the weight is already in the program's graph.
    let gradients = |policy: &str| {
        let _scopes = scopes(policy);
        let y = norm(&WEIGHTED, norm(&WEIGHTED, x.clone(), &weight), &weight);
        let gradients = y.clone().square().sum().backward();
        let x = x.grad(&gradients).expect("a gradient").into_data();
        (
            y.into_data(),
            x,
            weight.grad(&gradients).expect("a gradient").into_data(),
        )
    };
    let expected = gradients("none");
    let tolerance = Tolerance::relative(1e-4).set_absolute(1e-5);
    for _ in 0..MEASURED {
        let found = gradients("tune");
        found.0.assert_approx_eq::<f32>(&expected.0, tolerance);
        found.1.assert_approx_eq::<f32>(&expected.1, tolerance);
        found.2.assert_approx_eq::<f32>(&expected.2, tolerance);
    }
    assert!(rows(&WEIGHTED)[0].choice.is_some());
}

#[test]
fn a_call_that_is_verified_is_not_measured() {
    let _alone = alone();
    let _tune = policy::scope(Policy::auto().tune());
    let _first = live::scope(Sampling::first());
    let x = Tensor::<2>::ones([2, 2], &Device::flex());
    for measured in [0, 1, 2] {
        let _ = custom(At::new(&VERIFIED), Double(x.clone()), Operands::reference);
        assert_eq!(rows(&VERIFIED)[0].measured, measured);
    }
}

/// Writes the choices for `WRITTEN`, changed by `change`, and returns a policy that reads them.
fn policy_of(folder: &Path, name: &str, change: impl Fn(String) -> String) -> String {
    let path = folder.join(name);
    let mut written = tune::report();
    written.rows.retain(|row| row.site == WRITTEN.name());
    written.write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, change(text)).unwrap();
    format!("tune:{}", path.display())
}

#[test]
fn choices_are_written_and_read_for_the_same_device_and_release() {
    let _alone = alone();
    {
        let _scopes = scopes("tune");
        for _ in 0..MEASURED {
            call(&WRITTEN, [4, 8], Duration::ZERO);
        }
    }
    let folder = std::env::temp_dir().join(format!("burn-kernels-tuned-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let renamed =
        |site: &'static Site| move |text: String| text.replace(&WRITTEN.name(), &site.name());
    let same = policy_of(&folder, "same.toml", renamed(&READ));
    {
        let _scopes = scopes(&same);
        assert_eq!(runs(|| call(&READ, [4, 8], Duration::ZERO)), (0, 1));
        let row = &rows(&READ)[0];
        assert!(row.from_file && row.measured == 0, "{row:?}");
        assert!(row.kernel_ms > row.reference_ms, "{row:?}");
        let shown = format!("{:#}", tune::report());
        assert!(shown.contains("from the file"), "{shown}");
        // A class that the file has no choice for is measured.
        assert_eq!(runs(|| call(&READ, [4, 9], Duration::ZERO)), (2, 1));
    }
    let elsewhere = policy_of(&folder, "device.toml", |text| {
        renamed(&OF_ANOTHER_DEVICE)(text).replace("threads: ", "threads: 99")
    });
    let before = policy_of(&folder, "release.toml", |text| {
        renamed(&OF_ANOTHER_RELEASE)(text).replace("release = \"", "release = \"0.0.0-")
    });
    for (site, policy) in [
        (&OF_ANOTHER_DEVICE, elsewhere),
        (&OF_ANOTHER_RELEASE, before),
    ] {
        let _scopes = scopes(&policy);
        assert_eq!(
            runs(|| call(site, [4, 8], Duration::ZERO)),
            (2, 1),
            "{policy}"
        );
        assert!(!rows(site)[0].from_file);
    }
    std::fs::write(folder.join("bad.toml"), "release = 'x'\ncolour = 1\n").unwrap();
    let bad = format!("tune:{}", folder.join("bad.toml").display());
    let error = bad.parse::<Policy>().unwrap_err().to_string();
    assert!(
        error.contains("bad.toml") && error.contains("colour"),
        "{error}"
    );
    let error = tune::report()
        .write(folder.join("none/x.toml"))
        .unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
