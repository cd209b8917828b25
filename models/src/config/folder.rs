//! Folders that hold something else than was expected: adapters, a model, or a run of `kernels`.

use std::path::Path;

use kernels_io::Limit;
use serde_json::Value;

use crate::error::ModelError;

/// The file of the settings of adapters.
pub(crate) const CONFIG: &str = "adapter_config.json";

/// The largest size of that file.
pub(crate) const LIMIT: Limit = Limit::mib("a configuration", 16);

/// The folder of a run's adapters in that of the run.
const OF_RUN: &str = "adapter";

/// Returns the error of a folder that holds adapters, or a run, in place of a model.
pub(crate) fn no_model(dir: &Path) -> Option<ModelError> {
    let run = dir.join(OF_RUN);
    let problem = if dir.join(CONFIG).exists() {
        format!("holds an adapter and no model; {}", to_do(dir, "DIR"))
    } else if dir.join("checkpoint/config.json").exists() {
        "holds a run; its model is in its folder `checkpoint`: name that".to_owned()
    } else if run.join(CONFIG).exists() {
        let to_do = to_do(&run, "DIR/adapter");
        format!("holds a run, with an adapter in its folder `{OF_RUN}`, and no model; {to_do}")
    } else {
        return None;
    };
    Some(error(dir, problem))
}

/// Returns what to do with an adapter.
fn to_do(dir: &Path, shown: &str) -> String {
    let text = kernels_io::read_text(&dir.join(CONFIG), LIMIT).ok();
    let fields = text.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let base = fields
        .as_ref()
        .and_then(|own| own.get("base_model_name_or_path")?.as_str());
    let base = base.map_or_else(String::new, |base| {
        format!(
            ", `{}`",
            kernels_io::escape(&kernels_io::shorten(base, 200))
        )
    });
    format!(
        "name its base{base}: `kernels generate --model BASE --adapter {shown}` runs both, and `kernels merge` makes one \
         checkpoint of them"
    )
}

/// Returns the error of a folder without adapters.
pub(crate) fn no_adapter(dir: &Path) -> ModelError {
    let problem = match dir.join(OF_RUN).join(CONFIG).exists() {
        true => {
            format!("holds no {CONFIG}; that of this run is in its folder `{OF_RUN}`: name that")
        }
        false => format!("holds no {CONFIG}, so it is not a folder of an adapter in PEFT's layout"),
    };
    error(dir, problem)
}

fn error(dir: &Path, problem: String) -> ModelError {
    ModelError::Layout {
        dir: dir.into(),
        problem,
    }
}
