use super::*;

const I: ModeFlags = ModeFlags::INFERENCE;
const T: ModeFlags = ModeFlags::TRAINING;
const C: ModeFlags = ModeFlags::COMPILE;
const F: ModeFlags = ModeFlags::FALLBACK;
const ID: &str = "npu_fused_rmsnorm";

fn rule(mode: ModeFlags) -> Rule {
    Rule::new("RMSNorm", DeviceKind::Cuda, ID).during(mode)
}

fn of(rules: impl IntoIterator<Item = Rule>) -> Mapping {
    rules
        .into_iter()
        .try_fold(Mapping::new(), Mapping::with)
        .unwrap()
}

/// Returns the mode of the rule that is found on a CUDA device.
fn found(mapping: &Mapping, mode: ModeFlags) -> Result<ModeFlags, Reason> {
    match mapping.find("RMSNorm", DeviceKind::Cuda, 80, mode) {
        Entry::Found(_, mode) => Ok(mode),
        Entry::Missing(reason) => Err(reason),
    }
}

/// Checks every set of registered modes with every mode that can be requested. The expected results are the table of
/// the documentation, written out here a second time.
#[test]
fn the_mode_matrix() {
    let registered = [I, I | C, T, T | C, F];
    let table = [
        (I, vec![I, I | C, T, T | C, F]),
        (I | C, vec![I | C, T | C, F]),
        (T, vec![T, T | C, F]),
        (T | C, vec![T | C, F]),
    ];
    for set in 1_u8..32 {
        let modes: Vec<_> = (0..5)
            .filter(|bit| set >> bit & 1 == 1)
            .map(|bit| registered[bit])
            .collect();
        let mapping = of(modes.iter().map(|mode| rule(*mode)));
        for (asked, order) in &table {
            let expected = order.iter().find(|mode| modes.contains(mode));
            assert_eq!(
                found(&mapping, *asked),
                expected.copied().ok_or(Reason::NoMode),
                "{modes:?} asked for {asked}"
            );
        }
    }
}

#[test]
fn each_missing_step_has_its_reason() {
    let mapping = of([rule(T).on(CapabilityRange::new(80, 90))]);
    let find = |layer, device, capability, mode| mapping.find(layer, device, capability, mode);
    let missing = |reason| Entry::Missing(reason);
    let cuda = DeviceKind::Cuda;
    assert_eq!(find("MLP", cuda, 80, T), missing(Reason::NoLayer));
    assert_eq!(
        find("RMSNorm", DeviceKind::Npu, 80, T),
        missing(Reason::NoDevice)
    );
    assert_eq!(find("RMSNorm", cuda, 91, T), missing(Reason::NoCapability));
    assert_eq!(find("RMSNorm", cuda, 80, T | C), missing(Reason::NoMode));
    assert_eq!(
        find("RMSNorm", cuda, 80, T),
        Entry::Found(&Target::from(ID), T)
    );
    // No gradient is needed, and there is a kernel for training.
    assert_eq!(
        find("RMSNorm", cuda, 80, I),
        Entry::Found(&Target::from(ID), T)
    );
}

#[test]
fn the_smallest_interval_counts_even_if_a_larger_one_has_the_mode() {
    let mapping = of([rule(T), rule(I).on(CapabilityRange::new(80, 89))]);
    assert_eq!(found(&mapping, I), Ok(I));
    assert_eq!(found(&mapping, T), Err(Reason::NoMode));
}

#[test]
fn registering_again_replaces_one_mode_and_keeps_the_others() {
    let first = of([rule(I), rule(T), rule(F)]);
    let second = of([Rule::new("RMSNorm", DeviceKind::Cuda, "reference").during(T)]);
    let both = first.extended(&second);
    let target = |mode| match both.find("RMSNorm", DeviceKind::Cuda, 0, mode) {
        Entry::Found(target, _) => target.clone(),
        Entry::Missing(reason) => panic!("{reason}"),
    };
    assert_eq!(target(T), Target::Reference);
    assert_eq!(target(I), Target::from(ID));
    assert_eq!(both.rules().count(), 3);
    assert_eq!(first.extended(&Mapping::new()), first);
    assert_eq!(Mapping::new().extended(&first), first);
}

#[test]
fn rules_that_cannot_be_are_errors() {
    let error = |rule: Rule| Mapping::new().with(rule).unwrap_err().to_string();
    assert!(error(rule(I | T)).contains("exclude each other"));
    assert!(error(rule(F | T)).contains("stands alone"));
    assert!(error(rule(C)).contains("neither"));
    let unknown = Rule::new("RMSNorm", DeviceKind::Cpu, "npu_fused_rmsnor");
    assert!(error(unknown).contains("did you mean `npu_fused_rmsnorm`?"));
    for layer in ["", "a b", "a@b", "a=b"] {
        let rule = Rule::new(layer, DeviceKind::Cpu, ID);
        assert!(error(rule).contains("invalid name"), "{layer}");
    }
}

#[test]
fn toml_reads_back() {
    let mapping = of([
        rule(F),
        rule(T | C).on(CapabilityRange::new(80, 90)),
        Rule::new("MLP", DeviceKind::Cpu, "reference").during(I),
    ]);
    let toml = mapping.to_toml();
    assert_eq!(Mapping::from_toml(&toml).unwrap(), mapping, "{toml}");
    assert_eq!(Mapping::from_toml("").unwrap(), Mapping::new());
    let error = |toml: &str| Mapping::from_toml(toml).unwrap_err().to_string();
    assert!(error("maping = []").contains("did you mean `mapping`?"));
    assert!(error("[[mapping]]\nlayer = 'A'").contains("not valid TOML"));
    let two = "[[mapping]]\nlayer='A'\ndevice='cpu'\nkernel='x'\n";
    assert!(error(two).contains("unknown kernel `x`"));
}

#[test]
fn scopes_nest_restore_and_stay_on_their_thread() {
    let before = current();
    {
        let _outer = scope(of([rule(T)]));
        let outer = current();
        assert_eq!(outer, before.extended(&of([rule(T)])));
        {
            let _inner = scope(of([rule(I)]));
            assert_eq!(current().rules().count(), outer.rules().count() + 1);
            {
                let _only = scope_only(Mapping::new());
                assert!(current().is_empty());
            }
            let elsewhere = std::thread::spawn(current).join().unwrap();
            assert_eq!(elsewhere, before);
            assert_eq!(current().rules().count(), outer.rules().count() + 1);
        }
        assert_eq!(current(), outer);
    }
    assert_eq!(current(), before);
}
