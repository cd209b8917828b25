use crate::dispatch::{Decision, Query, Tally};
use crate::live::Checks;
use crate::semantics::SemanticsKey;
use burn::backend::DispatchTensor;
use serde::Serialize;
use std::fmt;

/// What the attribute knows of an annotated place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SiteSpec {
    /// The kernel id that the attribute names.
    pub kernel: &'static str,
    /// The annotated item inside its module, such as `LlamaMlp::forward`.
    pub item: &'static str,
    /// The module path.
    pub module: &'static str,
    /// The package that contains the site.
    #[serde(rename = "crate")]
    pub krate: &'static str,
    /// That package's version.
    pub crate_version: &'static str,
    /// The source file, as the compiler was given it.
    pub file: &'static str,
    /// The line of the attribute.
    pub line: u32,
    /// Which form of the attribute it is.
    pub form: Form,
    /// What the site computes.
    pub key: SemanticsKey,
    /// The layer name that mappings know it by, from `layer = "…"`.
    pub layer: Option<&'static str>,
}

/// What kind of item carries the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A struct: `forward` is written by the attribute.
    Struct,
    /// An impl block: one of its methods is the reference.
    Impl,
    /// A method inside an impl block.
    Method,
    /// A free function.
    Function,
}

impl Form {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Impl => "impl",
            Self::Method => "method",
            Self::Function => "function",
        }
    }
}

/// An annotated place in the running program: its [`SiteSpec`], and what ran there so far.
pub struct Site {
    spec: SiteSpec,
    record: &'static [u8],
    tally: Tally,
    checks: Checks,
}

impl Site {
    /// Used by the expansion of the attribute.
    #[doc(hidden)]
    pub const fn new(spec: SiteSpec, record: &'static [u8]) -> Self {
        Self {
            spec,
            record,
            tally: Tally::new(),
            checks: Checks::new(),
        }
    }

    /// What the attribute knows.
    pub const fn spec(&self) -> &SiteSpec {
        &self.spec
    }

    /// The full name, such as `my_crate::model::LlamaMlp::forward`.
    pub fn name(&self) -> String {
        format!("{}::{}", self.spec.module, self.spec.item)
    }

    /// The site's record in the link section, as `kernels inspect` reads it.
    pub const fn record(&self) -> &'static [u8] {
        self.record
    }

    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) const fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Which path a call takes, and counts it. See [`crate::dispatch`].
    ///
    /// # Panics
    /// When the policy asks for the kernel explicitly (`+id`, `strict`) and it cannot run; the
    /// message says why and what to do.
    // Compiled here and not in the caller's crate, from where the thread-local is further away.
    #[inline(never)]
    pub fn decide(&self, query: Query) -> Decision {
        self.tally.decide(&self.spec, query, None)
    }

    /// As [`Site::decide`], for a call with these tensors: the limits of implementations count too.
    #[inline(never)]
    pub(crate) fn decide_call(&self, query: Query, tensors: &[&DispatchTensor]) -> Decision {
        self.tally.decide(&self.spec, query, Some(tensors))
    }

    /// Which path a call would take. It is not counted, but panics as [`Site::decide`] does.
    #[inline(never)]
    pub fn peek(&self, query: Query) -> Decision {
        self.tally.peek(&self.spec, query)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

/// Declares a site: the static that the generated method uses, registered, and its record.
///
/// `json` is the record's JSON, a constant. Without it the compiler writes the record from the
/// other fields and `key_json`, which costs it some milliseconds: for kernels whose key the
/// attribute does not know.
#[doc(hidden)]
#[macro_export]
macro_rules! __declare_site {
    (static $name:ident = {
        kernel: $kernel:expr,
        item: $item:expr,
        form: $form:expr,
        key: $key:expr,
        key_json: $key_json:expr,
        layer: $layer:expr $(,)?
    }) => {
        #[$crate::__private::linkme::distributed_slice($crate::registry::SITES)]
        #[linkme(crate = $crate::__private::linkme)]
        static $name: $crate::registry::Site = {
            const SPEC: $crate::registry::SiteSpec = {
                #[allow(unused_imports)]
                use $crate::{registry::Form, semantics::*};
                $crate::registry::SiteSpec {
                    kernel: $kernel,
                    item: $item,
                    module: ::core::module_path!(),
                    krate: $crate::__private::or_unknown(::core::option_env!("CARGO_PKG_NAME")),
                    crate_version: $crate::__private::or_unknown(::core::option_env!(
                        "CARGO_PKG_VERSION"
                    )),
                    file: ::core::file!(),
                    line: ::core::line!(),
                    form: $form,
                    key: $key,
                    layer: $layer,
                }
            };
            const LEN: usize = $crate::registry::section::site_record::<0>(&SPEC, $key_json).1;
            $crate::__in_link_section! {
                static RECORD: [u8; LEN] =
                    $crate::registry::section::site_record::<LEN>(&SPEC, $key_json).0;
            }
            $crate::registry::Site::new(SPEC, &RECORD)
        };
    };
    (static $name:ident = $spec:expr, json: $json:expr) => {
        #[$crate::__private::linkme::distributed_slice($crate::registry::SITES)]
        #[linkme(crate = $crate::__private::linkme)]
        static $name: $crate::registry::Site = {
            const LEN: usize = $crate::registry::section::record_len($json);
            $crate::__in_link_section! {
                static RECORD: [u8; LEN] = $crate::registry::section::record($json);
            }
            $crate::registry::Site::new($spec, &RECORD)
        };
    };
}
