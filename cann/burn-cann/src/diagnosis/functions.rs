//! Checks of the functions that CANN's libraries export.

use cann_sys::{MissingSymbol, versions};

use super::finding::{Area, Finding};
use crate::cann::Cann;

const COLLECTIVES: &str = "collectives";

/// Returns one finding for each area, with the operators that are missing.
pub(super) fn findings(cann: &Cann) -> Vec<Finding> {
    let sys = cann.sys();
    macro_rules! areas {
        ($($name:expr => $area:ident $table:ident),* $(,)?) => {
            vec![$(area($name, cann_sys::$table::NAMES.len(), &sys.$area.missing())),*]
        };
    }
    areas![
        "runtime" => runtime Runtime,
        "operands" => meta Meta,
        "norm" => norm Norm,
        "activation" => activation Activation,
        "rotary embedding" => rotary Rotary,
        "matmul" => matmul Matmul,
        "grouped matmul" => grouped_matmul GroupedMatmul,
        "mixture of experts" => moe Moe,
        "attention" => attention Attention,
        "training" => training Training,
        "element-wise" => elementwise Elementwise,
        "reduction" => reduce Reduce,
        "index" => index Index,
        "shape" => shape Shape,
        "creation" => create Create,
        COLLECTIVES => hccl Hccl,
    ]
}

/// Returns the finding of an area. Versions of CANN export different functions, so a missing function is not a fault
/// by itself: a call of it returns an error with advice. An area without any function is a fault.
fn area(name: &str, of: usize, missing: &[MissingSymbol]) -> Finding {
    let there = of - missing.len();
    let text = format!("{name}: {there} of {of}");
    if missing.is_empty() {
        return Finding::good(Area::Functions, text);
    }
    let mut names: Vec<_> = missing.iter().map(operator).collect();
    names.dedup();
    // A single device needs no collectives.
    if there == 0 && name != COLLECTIVES {
        let known = versions::known(names[0]);
        let advice = format!("no library has {} or any other of them; {known}", names[0]);
        return Finding::missing(Area::Functions, text, advice);
    }
    Finding::note(
        Area::Functions,
        format!("{text}; not there: {}", names.join(", ")),
    )
}

/// Returns the operator of a function. An operator has two functions, and the first stands for both.
fn operator(missing: &MissingSymbol) -> &'static str {
    let name = missing.name();
    name.strip_suffix("GetWorkspaceSize").unwrap_or(name)
}
