//! The text form of a policy.

use super::pattern::SitePattern;
use super::{Base, Layers, Policy, PolicyError};
use crate::mapping::Rule;
use std::fmt;
use std::str::FromStr;

/// The grammar of a policy, for error messages.
pub const GRAMMAR: &str = "`@FILE.toml`, or a comma list of: `auto` or `all` (every kernel, the \
    default) or `none`; then `+ID` to ask for a kernel, `-ID` to switch one off; `+PATTERN` and \
    `-PATTERN` for sites, such as `-llama::*`, where the last that matches wins, and over any ID; \
    the same signs with `first:N`, `last:N` or `layers:I-J` for layers of a stack; \
    `strict` to make an unmet wish an error; `strict:REASON`, `warn:REASON` and `silent:REASON`; \
    `deterministic`; `tune` to measure kernel and reference and keep the faster, or `tune:FILE` to read \
    earlier choices; `prefer:IMPLEMENTATION`; `attn:NAME` or `attn:PATTERN=NAME` for attention; \
    `map:LAYER@DEVICE=KERNEL`. Example: \
    `none,+npu_fused_swiglu`";

impl FromStr for Policy {
    type Err = PolicyError;

    /// Reads the text form; see [`GRAMMAR`]. `@path` reads a TOML file.
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(PolicyError::Empty);
        }
        if let Some(path) = text.strip_prefix('@') {
            return Self::from_file(path);
        }
        let mut policy = Self::default();
        let mut seen: Vec<(Word<'_>, &str)> = Vec::new();
        for text in text.split(',').map(str::trim) {
            let word = Word::parse(text).ok_or_else(|| PolicyError::Word {
                word: text.to_owned(),
            })?;
            if let Some((_, first)) = seen.iter().find(|(said, _)| said.settles_the_same(&word)) {
                return Err(PolicyError::Contradiction {
                    first: (*first).to_owned(),
                    second: text.to_owned(),
                });
            }
            policy = word.apply(policy)?;
            seen.push((word, text));
        }
        Ok(policy)
    }
}

/// One word of a policy.
enum Word<'a> {
    Base(Base),
    Strict,
    Deterministic,
    /// The file of earlier choices, if there is one.
    Tune(Option<&'a str>),
    Kernel(&'a str, bool),
    Sites(&'a str, bool),
    Layers(&'a str, bool),
    Prefer(&'a str),
    Attention(&'a str),
    Reaction(&'a str, &'a str),
    Map(&'a str),
}

impl<'a> Word<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        match text {
            "auto" | "all" => return Some(Self::Base(Base::All)),
            "none" => return Some(Self::Base(Base::None)),
            "strict" => return Some(Self::Strict),
            "deterministic" => return Some(Self::Deterministic),
            "tune" => return Some(Self::Tune(None)),
            _ => {}
        }
        for (sign, on) in [('+', true), ('-', false)] {
            if let Some(name) = text.strip_prefix(sign).filter(|name| !name.is_empty()) {
                return Some(match name {
                    // A kernel of a package. Layers and sites have neither character.
                    _ if name.contains(['/', '@']) => Self::Kernel(name, on),
                    _ if Layers::is_one(name) => Self::Layers(name, on),
                    _ if SitePattern::is_one(name) => Self::Sites(name, on),
                    _ => Self::Kernel(name, on),
                });
            }
        }
        match text.split_once(':')? {
            (_, "") => None,
            ("tune", file) => Some(Self::Tune(Some(file))),
            ("prefer", name) => Some(Self::Prefer(name)),
            ("attn", rule) => Some(Self::Attention(rule)),
            ("map", rule) => Some(Self::Map(rule)),
            (reaction @ ("strict" | "warn" | "silent"), reason) => {
                Some(Self::Reaction(reaction, reason))
            }
            _ => None,
        }
    }

    /// Returns `true` if two words state the same or opposite things about one subject.
    fn settles_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Base(_), Self::Base(_))
            | (Self::Strict, Self::Strict)
            | (Self::Deterministic, Self::Deterministic)
            | (Self::Tune(_), Self::Tune(_)) => true,
            (Self::Kernel(a, _), Self::Kernel(b, _))
            | (Self::Layers(a, _), Self::Layers(b, _))
            | (Self::Prefer(a), Self::Prefer(b))
            | (Self::Reaction(_, a), Self::Reaction(_, b)) => a == b,
            (Self::Sites(a, _), Self::Sites(b, _)) => a.replace("::", ".") == b.replace("::", "."),
            (Self::Attention(a), Self::Attention(b)) => {
                let sites = |rule: &str| Some(rule.split_once('=')?.0.replace("::", "."));
                sites(a) == sites(b)
            }
            (Self::Map(a), Self::Map(b)) => {
                a.split_once('=').map(|(subject, _)| subject)
                    == b.split_once('=').map(|(subject, _)| subject)
            }
            _ => false,
        }
    }

    fn apply(&self, policy: Policy) -> Result<Policy, PolicyError> {
        Ok(match *self {
            Self::Base(base) => Policy { base, ..policy },
            Self::Strict => policy.strict(),
            Self::Deterministic => policy.deterministic(),
            Self::Tune(None) => policy.tune(),
            Self::Tune(Some(file)) => policy.tune_from(file)?,
            Self::Kernel(id, true) => policy.enable(id)?,
            Self::Kernel(id, false) => policy.disable(id)?,
            Self::Sites(pattern, true) => policy.enable_sites(pattern)?,
            Self::Sites(pattern, false) => policy.disable_sites(pattern)?,
            Self::Layers(layers, true) => policy.enable_layers(layers.parse()?),
            Self::Layers(layers, false) => policy.disable_layers(layers.parse()?),
            Self::Prefer(name) => policy.prefer(name)?,
            Self::Attention(rule) => policy.attention(rule)?,
            Self::Reaction(reaction, reason) => policy.react(
                reason.parse().map_err(PolicyError::Unknown)?,
                reaction.parse().map_err(PolicyError::Unknown)?,
            ),
            Self::Map(rule) => policy.map(rule.parse::<Rule>()?)?,
        })
    }
}

/// Writes the text form, which parses back to the same policy.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.base {
            Base::All => "all",
            Base::None => "none",
        })?;
        let sign = |on: bool| if on { '+' } else { '-' };
        for (id, on) in &self.kernels {
            write!(f, ",{}{id}", sign(*on))?;
        }
        for (pattern, on) in &self.sites {
            write!(f, ",{}{pattern}", sign(*on))?;
        }
        for (layers, on) in &self.layers {
            write!(f, ",{}{layers}", sign(*on))?;
        }
        if self.strict {
            f.write_str(",strict")?;
        }
        if self.deterministic {
            f.write_str(",deterministic")?;
        }
        self.tune.fmt(f)?;
        for name in &self.prefer {
            write!(f, ",prefer:{name}")?;
        }
        for rule in &self.attention {
            write!(f, ",attn:{rule}")?;
        }
        for (reason, reaction) in &self.reactions {
            write!(f, ",{reaction}:{}", reason.name())?;
        }
        for rule in self.mapping.rules() {
            write!(f, ",map:{rule}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Reaction;
    use crate::reason::Reason;

    fn error(text: &str) -> String {
        text.parse::<Policy>().unwrap_err().to_string()
    }

    #[test]
    fn blanks_and_order_do_not_matter() {
        let policy: Policy = " strict , -npu_fused_rope , all ".parse().unwrap();
        assert_eq!(
            policy,
            Policy::auto().strict().disable("npu_fused_rope").unwrap()
        );
        assert_eq!("auto".parse::<Policy>().unwrap(), Policy::auto());
    }

    #[test]
    fn display_parses_back() {
        for text in [
            "all",
            "none",
            "all,-npu_fused_rope",
            "none,+npu_fused_rmsnorm,+npu_fused_swiglu",
            "all,strict",
            "all,-first:2,+last:1,-layers:3-5",
            "all,deterministic",
            "none,+npu_fused_rope,strict,tune",
            "none,attn:npu_fused_attention",
            "all,attn:reference",
            "all,strict:no_device,warn:policy,silent:dtype",
            "none,+npu_fused_rope,map:rotary_pos_emb@cpu=reference",
            "all,map:rotary_pos_emb@cuda:80..=90/training+compile=npu_fused_rope",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
            assert_eq!(policy.to_string().len(), text.len(), "{policy}");
        }
    }

    #[test]
    fn words_are_what_the_builder_says() {
        assert_eq!(
            "all,strict:dtype,silent:shape,deterministic"
                .parse::<Policy>()
                .unwrap(),
            Policy::auto()
                .react(Reason::Shape, Reaction::Silent)
                .react(Reason::Dtype, Reaction::Strict)
                .deterministic()
        );
    }

    #[test]
    fn errors_say_what_to_write() {
        assert!(error("").contains("empty"));
        assert!(error("all,,strict").contains("`` is not part"));
        assert!(error("al").contains("`al` is not part of a policy"));
        assert!(error("npu_fused_rope").contains("+ID"));
        assert!(error("+").contains("`+` is not part"));
        assert!(error("loud:dtype").contains("`loud:dtype` is not part"));
        assert!(error("warn:").contains("`warn:` is not part"));
        assert!(error("warn:dtyp").contains("did you mean `dtype`?"));
        assert!(error("prefer:cpu-smd").contains("unknown implementation `cpu-smd`"));
        assert!(error("@/no/such.toml").contains("/no/such.toml"));
        assert!(error("attn:flash").contains("unknown implementation of attention `flash`"));
        assert!(
            error("attn:npu_fused_rope").contains("known: auto, reference, npu_fused_attention")
        );
        assert!(error("attn:npu_fused_attention@7").contains("unknown version `7`"));
        assert!(error("attn:else/npu_fused_attention").contains("unknown implementation"));
        assert!(error("attn:*rope=reference").contains("is one of attention"));
        assert!(error("tune:").contains("`tune:` is not part"));
        assert!(error("tune:/no/such.toml").contains("/no/such.toml"));
    }

    #[test]
    fn contradictions_are_errors() {
        for (text, words) in [
            ("all,none", "`all` and `none` can't stand in one policy"),
            ("strict,strict", "`strict` and `strict`"),
            ("tune,tune:a.toml", "`tune` and `tune:a.toml`"),
            (
                "+npu_fused_rope,-npu_fused_rope",
                "`+npu_fused_rope` and `-npu_fused_rope`",
            ),
            (
                "attn:auto,attn:reference",
                "`attn:auto` and `attn:reference`",
            ),
            ("warn:dtype,silent:dtype", "`warn:dtype` and `silent:dtype`"),
            (
                "map:rotary_pos_emb@cpu=reference,map:rotary_pos_emb@cpu=npu_fused_rope",
                "`map:rotary_pos_emb@cpu=reference` and",
            ),
        ] {
            assert!(error(text).contains(words), "{}", error(text));
        }
    }

    #[test]
    fn unknown_names_list_what_is_near_and_known() {
        let message = error("none,+npu_fused_swigl");
        assert!(
            message.contains("did you mean `npu_fused_swiglu`?"),
            "{message}"
        );
        assert!(
            message.contains("npu_fused_rmsnorm, npu_fused_rope"),
            "{message}"
        );
        assert!(!error("none,+flash").contains("did you mean"));
        let message = error("strict,map:rotary_pos_embb@cpu=reference");
        assert!(
            message.contains("unknown layer `rotary_pos_embb`, did you mean `rotary_pos_emb`?"),
            "{message}"
        );
        let message = error("-llama::*");
        assert!(message.contains("no site matches `llama::*`"), "{message}");
    }
}
