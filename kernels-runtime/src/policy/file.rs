//! The TOML form of a policy.

use super::tune::TuneKey;
use super::{Base, Policy, PolicyError};
use crate::mapping::Rule;
use crate::near::unknown;
use crate::reason::Reason;
use kernels_io::Limit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The keys of a policy's TOML, as [`Policy::from_toml`] documents them.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    default: Option<String>,
    strict: bool,
    deterministic: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tune: Option<TuneKey>,
    enable: Vec<String>,
    disable: Vec<String>,
    sites: Vec<String>,
    layers: Vec<String>,
    prefer: Vec<String>,
    attention: Vec<String>,
    // Tables come last, because TOML can't return to the top level.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reactions: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mapping: Vec<Rule>,
}

const KEYS: [&str; 12] = [
    "default",
    "strict",
    "deterministic",
    "tune",
    "enable",
    "disable",
    "sites",
    "layers",
    "prefer",
    "attention",
    "reactions",
    "mapping",
];

impl Policy {
    /// Reads a policy from TOML. Every key is optional, and any unknown key is an error. So is a layer that no site of the
    /// program has.
    ///
    /// ```no_run
    /// # extern crate kernels_runtime as burn_kernels;
    /// # use burn_kernels::policy::Policy;
    /// let policy = Policy::from_toml(
    ///     r#"
    ///     default = "all"                 # or "none"
    ///     strict = false
    ///     deterministic = true
    ///     tune = true                     # or the file of earlier choices
    ///     enable = ["npu_fused_rmsnorm"]  # as +id
    ///     disable = ["npu_fused_rope"]    # as -id
    ///     sites = []                      # in order, such as "-llama::*", "+*Mlp"
    ///     layers = ["-first:2"]           # in order; also last:N, layers:I-J
    ///     prefer = []                     # names of implementations, best first
    ///     attention = ["reference"]       # in order; also "PATTERN=NAME"
    ///
    ///     [reactions]
    ///     dtype = "strict"                # or "warn", "silent"
    ///
    ///     [[mapping]]
    ///     layer = "RMSNorm"
    ///     device = "cuda"
    ///     capability = "80..=90"          # without it: any
    ///     mode = "training"               # without it: fallback
    ///     kernel = "reference"            # or the id of a kernel
    ///     "#,
    /// )?;
    /// assert_eq!(policy, Policy::from_toml(&policy.to_toml())?);
    /// # Ok::<(), burn_kernels::policy::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the text is not TOML, has an unknown key or name (the message lists similar names), or
    /// contradicts itself.
    pub fn from_toml(text: &str) -> Result<Self, PolicyError> {
        let table: toml::Table = toml::from_str(text).map_err(invalid)?;
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(PolicyError::Unknown(unknown("key of a policy", key, KEYS)));
        }
        toml::from_str::<File>(text).map_err(invalid)?.policy()
    }

    /// Reads a policy from a TOML file. The text form, also in `BURN_KERNELS`, is `@path`.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or does not hold a policy; see [`Policy::from_toml`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let path = path.as_ref();
        const LIMIT: Limit = Limit::mib("a policy", 1);
        let text = kernels_io::read_text(path, LIMIT)
            .map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        Self::from_toml(&text).map_err(|error| PolicyError::File {
            path: path.to_string_lossy().into_owned(),
            problem: error.to_string(),
        })
    }

    /// Returns the TOML form, which [`Policy::from_toml`] reads back to the same policy.
    pub fn to_toml(&self) -> String {
        let ids = |on: bool| {
            let said = self.kernels.iter().filter(move |(_, is)| **is == on);
            said.map(|(id, _)| (*id).to_owned()).collect()
        };
        let file = File {
            default: Some(
                match self.base {
                    Base::All => "all",
                    Base::None => "none",
                }
                .to_owned(),
            ),
            strict: self.strict,
            deterministic: self.deterministic,
            tune: self.tune.key(),
            enable: ids(true),
            disable: ids(false),
            sites: self
                .sites
                .iter()
                .map(|(pattern, on)| format!("{}{pattern}", if *on { '+' } else { '-' }))
                .collect(),
            layers: self
                .layers
                .iter()
                .map(|(layers, on)| format!("{}{layers}", if *on { '+' } else { '-' }))
                .collect(),
            prefer: self.prefer.iter().map(|name| (*name).to_owned()).collect(),
            attention: self.attention.iter().map(ToString::to_string).collect(),
            reactions: self
                .reactions
                .iter()
                .map(|(reason, reaction)| (reason.name().to_owned(), reaction.name().to_owned()))
                .collect(),
            mapping: self.mapping.rules().collect(),
        };
        toml::to_string(&file).expect("text, flags, lists and tables are TOML")
    }
}

impl File {
    fn policy(self) -> Result<Policy, PolicyError> {
        let mut policy = Policy {
            base: base(self.default.as_deref())?,
            strict: self.strict,
            deterministic: self.deterministic,
            ..Policy::default()
        };
        if let Some(key) = self.tune {
            policy = key.apply(policy)?;
        }
        for id in &self.enable {
            if self.disable.contains(id) {
                return Err(PolicyError::Contradiction {
                    first: format!("enable = [\"{id}\"]"),
                    second: format!("disable = [\"{id}\"]"),
                });
            }
            policy = policy.enable(id)?;
        }
        for id in &self.disable {
            policy = policy.disable(id)?;
        }
        for word in &self.sites {
            policy = sites(policy, word)?;
        }
        for word in &self.layers {
            policy = layers(policy, word)?;
        }
        for name in &self.prefer {
            policy = policy.prefer(name)?;
        }
        for rule in &self.attention {
            policy = policy.attention(rule)?;
        }
        for (reason, reaction) in &self.reactions {
            let reason: Reason = reason.parse().map_err(PolicyError::Unknown)?;
            policy = policy.react(reason, reaction.parse().map_err(PolicyError::Unknown)?);
        }
        for rule in self.mapping {
            policy = policy.map(rule)?;
        }
        Ok(policy)
    }
}

fn base(name: Option<&str>) -> Result<Base, PolicyError> {
    match name {
        None | Some("all" | "auto") => Ok(Base::All),
        Some("none") => Ok(Base::None),
        Some(other) => Err(PolicyError::Unknown(unknown(
            "default of a policy",
            other,
            ["all", "auto", "none"],
        ))),
    }
}

/// Adds a word of `sites`: a pattern with its sign.
fn sites(policy: Policy, word: &str) -> Result<Policy, PolicyError> {
    match (word.strip_prefix('+'), word.strip_prefix('-')) {
        (Some(pattern), _) => policy.enable_sites(pattern),
        (_, Some(pattern)) => policy.disable_sites(pattern),
        _ => Err(PolicyError::Toml(format!(
            "`{word}` in `sites` needs a sign: `+{word}` or `-{word}`"
        ))),
    }
}

/// Adds a word of `layers`: some layers with their sign.
fn layers(policy: Policy, word: &str) -> Result<Policy, PolicyError> {
    match (word.strip_prefix('+'), word.strip_prefix('-')) {
        (Some(layers), _) => Ok(policy.enable_layers(layers.parse()?)),
        (_, Some(layers)) => Ok(policy.disable_layers(layers.parse()?)),
        _ => Err(PolicyError::Toml(format!(
            "`{word}` in `layers` needs a sign: `+{word}` or `-{word}`"
        ))),
    }
}

fn invalid(error: toml::de::Error) -> PolicyError {
    PolicyError::Toml(error.to_string().trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Reaction;

    fn error(text: &str) -> String {
        Policy::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn toml_and_text_say_the_same() {
        for text in [
            "all",
            "none,+npu_fused_rope,-npu_fused_swiglu,strict,deterministic,tune",
            "all,strict:dtype,silent:no_device",
            "all,-first:2,+layers:1",
            "all,attn:npu_fused_attention",
            "all,map:rotary_pos_emb@cpu=reference,map:rotary_pos_emb@cuda:80../training=npu_fused_rope",
        ] {
            let policy: Policy = text.parse().unwrap();
            let toml = policy.to_toml();
            assert_eq!(Policy::from_toml(&toml).unwrap(), policy, "{toml}");
        }
        assert_eq!(Policy::from_toml("").unwrap(), Policy::auto());
        let policy = Policy::from_toml("[reactions]\ndtype = 'warn'").unwrap();
        assert_eq!(policy, Policy::auto().react(Reason::Dtype, Reaction::Warn));
    }

    #[test]
    fn bad_files_are_errors_that_say_what_is_near() {
        for (toml, words) in [
            ("enabel = []", "did you mean `enable`?"),
            ("default = 'al'", "did you mean `all`?"),
            ("strict = 1", "strict"),
            ("tune = 1", "true, false or the path of a file"),
            ("tune = '/no/such.toml'", "/no/such.toml"),
            (
                "enable = ['npu_fused_rop']",
                "did you mean `npu_fused_rope`?",
            ),
            (
                "enable = ['npu_fused_rope']\ndisable = ['npu_fused_rope']",
                "can't stand in one policy",
            ),
            ("sites = ['llama::*']", "needs a sign"),
            ("layers = ['first:1']", "needs a sign"),
            ("layers = ['-first']", "`first:N`"),
            ("sites = ['-llama::*']", "no site matches `llama::*`"),
            ("[reactions]\ndtyp = 'warn'", "did you mean `dtype`?"),
            ("[reactions]\ndtype = 'wan'", "did you mean `warn`?"),
            (
                "[[mapping]]\nlayer = 'A'\ndevice = 'cpu'\nkernal = 'x'",
                "kernal",
            ),
            ("[[mapping]]\nlayer = 'A'\ndevice = 'cpu'", "kernel"),
            (
                "[[mapping]]\nlayer = 'rotary_pos_em'\ndevice = 'cpu'\nkernel = 'reference'",
                "did you mean `rotary_pos_emb`?",
            ),
            ("not toml", "not valid TOML"),
        ] {
            let message = error(toml);
            assert!(message.contains(words), "{toml}: {message}");
        }
    }
}
