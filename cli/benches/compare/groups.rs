//! The rows, in groups of one operation or layer.

use super::setting::{Pass, Setting};
use super::{decoder, families, operations};
use anyhow::ensure;
use burn::tensor::DType;

/// A call that is measured, on fixed tensors.
pub type Run = Box<dyn FnMut()>;

/// The rows of one operation or layer.
struct Group {
    name: &'static str,
    sizes: &'static [usize],
    passes: &'static [Pass],
    dtypes: &'static [DType],
    prepare: Prepare,
}

/// The function that prepares the rows of a group.
enum Prepare {
    Call(fn(&Setting) -> Run),
    /// A model of this family.
    Family(&'static str),
}

const BOTH: &[Pass] = &[Pass::Forward, Pass::Training];
const DTYPES: &[DType] = &[DType::F32, DType::BF16];

impl Group {
    /// Creates the rows of an operation.
    const fn operation(name: &'static str, prepare: fn(&Setting) -> Run) -> Self {
        Self {
            name,
            sizes: &[512, 2048],
            passes: BOTH,
            dtypes: DTYPES,
            prepare: Prepare::Call(prepare),
        }
    }

    /// Creates the rows of a decoder layer.
    const fn layer(name: &'static str, prepare: fn(&Setting) -> Run) -> Self {
        Self {
            name,
            sizes: &[512],
            passes: BOTH,
            dtypes: DTYPES,
            prepare: Prepare::Call(prepare),
        }
    }

    /// Creates the rows of a family's model of one layer.
    const fn family(name: &'static str, family: &'static str) -> Self {
        Self {
            name,
            sizes: &[512],
            passes: BOTH,
            dtypes: &[DType::F32],
            prepare: Prepare::Family(family),
        }
    }
}

const GROUPS: &[Group] = &[
    Group {
        name: "product_sum",
        sizes: &[512, 2048],
        passes: &[Pass::Training],
        dtypes: DTYPES,
        prepare: Prepare::Call(operations::product_sum),
    },
    Group::operation("rms_norm", operations::rms_norm),
    Group::operation("add_rms_norm", operations::add_rms_norm),
    Group::operation("swiglu", operations::swiglu),
    Group::operation("mlp", operations::mlp),
    Group::operation("rope", operations::rope),
    Group::operation("qk_norm_rope", operations::qk_norm_rope),
    Group::operation("attention", operations::attention),
    Group::operation("linear", operations::linear),
    Group::operation("experts", operations::experts),
    Group::operation("cross_entropy", operations::cross_entropy),
    Group::operation("linear_cross_entropy", operations::linear_cross_entropy),
    Group {
        name: "adam_w",
        sizes: &[1024, 4096],
        passes: &[Pass::Step],
        dtypes: DTYPES,
        prepare: Prepare::Call(operations::adam_w),
    },
    Group::layer("qwen3_layer", decoder::dense),
    Group::layer("qwen3_products", decoder::products),
    Group::layer("qwen3_moe_layer", decoder::sparse),
    Group::family("deepseek_v2_model", "deepseek_v2"),
    Group::family("deepseek_v3_model", "deepseek_v3"),
    Group::family("gemma2_model", "gemma2"),
    Group::family("gemma3_model", "gemma3"),
    Group::family("gemma3n_model", "gemma3n"),
    Group::family("glm4_model", "glm4"),
    Group::family("glm4_moe_model", "glm4_moe"),
    Group::family("gpt_oss_model", "gpt_oss"),
    Group::family("llama4_model", "llama4"),
    Group::family("olmo2_model", "olmo2"),
    Group::family("phi3_model", "phi3"),
    Group::family("qwen2_model", "qwen2"),
    Group::family("qwen2_moe_model", "qwen2_moe"),
    Group::family("seed_oss_model", "seed_oss"),
];

/// A row.
pub struct Row {
    group: &'static Group,
    pub setting: Setting,
}

impl Row {
    /// Returns the key, such as `swiglu/2048/bf16/forward+backward`.
    pub fn key(&self) -> String {
        let Setting { size, dtype, pass } = self.setting;
        let (group, dtype, pass) = (self.group.name, dtype.name(), pass.name());
        format!("{group}/{size}/{dtype}/{pass}")
    }

    /// Creates the tensors of the row.
    pub fn prepare(&self) -> Run {
        match self.group.prepare {
            Prepare::Call(prepare) => prepare(&self.setting),
            Prepare::Family(family) => families::prepare(family, &self.setting),
        }
    }
}

/// Returns the rows whose keys are these names or begin with one of them; without names, all rows.
///
/// # Errors
/// Returns an error that lists the groups if a name selects no row.
pub fn selected(names: &[String]) -> anyhow::Result<Vec<Row>> {
    let rows: Vec<Row> = GROUPS.iter().flat_map(rows).collect();
    let has = |row: &Row, name: &String| {
        let key = row.key();
        let rest = key.strip_prefix(name.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for name in names {
        let groups: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
        ensure!(
            rows.iter().any(|row| has(row, name)),
            "no row is named `{}`; the groups are {}",
            kernels_io::escape(name),
            groups.join(", ")
        );
    }
    let wanted = |row: &Row| names.is_empty() || names.iter().any(|name| has(row, name));
    Ok(rows.into_iter().filter(wanted).collect())
}

fn rows(group: &'static Group) -> Vec<Row> {
    let mut rows = Vec::new();
    for &size in group.sizes {
        for &dtype in group.dtypes {
            rows.extend(group.passes.iter().map(|&pass| Row {
                group,
                setting: Setting { size, dtype, pass },
            }));
        }
    }
    rows
}
