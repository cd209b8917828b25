use super::{Decision, DecisionCache, Query, Route};
use crate::live::Checks;
use crate::registry::SiteSpec;
use burn::backend::DispatchTensor;
use linkme::distributed_slice;
use std::fmt;

/// A site in the running program: its [`SiteSpec`], and the counts of its calls.
pub struct Site {
    spec: SiteSpec,
    record: &'static [u8],
    cache: DecisionCache,
    checks: Checks,
}

impl Site {
    /// Creates a site. The expansion of the attribute calls this.
    #[doc(hidden)]
    pub const fn new(spec: SiteSpec, record: &'static [u8]) -> Self {
        Self {
            spec,
            record,
            cache: DecisionCache::new(),
            checks: Checks::new(),
        }
    }

    /// Returns the facts that the attribute knows.
    pub const fn spec(&self) -> &SiteSpec {
        &self.spec
    }

    /// Returns the full name, such as `my_crate::model::LlamaMlp::forward`.
    pub fn name(&self) -> String {
        self.spec.name()
    }

    /// Returns the site's record in the link section, as `kernels inspect` reads it.
    pub const fn record(&self) -> &'static [u8] {
        self.record
    }

    pub(crate) const fn cache(&self) -> &DecisionCache {
        &self.cache
    }

    pub(crate) const fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Decides the path of a call, and counts it. See [`crate::dispatch`].
    ///
    /// # Panics
    /// Panics if the policy requires the kernel (`+id`, `strict`) and it cannot run. The message gives the reason and a
    /// remedy.
    // This function is compiled here and not in the caller's crate, where access to the thread-local would be slower.
    #[inline(never)]
    pub fn decide(&self, query: Query) -> Decision {
        self.cache.decide(&self.spec, query)
    }

    /// Decides as [`Site::decide`] does, for a call with these tensors. The limits of implementations are checked too, and
    /// a policy that tunes chooses by the sizes of the tensors.
    #[inline(never)]
    pub(crate) fn decide_call(&'static self, query: Query, tensors: &[&DispatchTensor]) -> Route {
        self.cache.decide_call(self, query, tensors)
    }

    /// Returns the path that a call would take, without counting it. It panics as [`Site::decide`] does.
    #[inline(never)]
    pub fn peek(&self, query: Query) -> Decision {
        self.cache.peek(&self.spec, query)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

/// All annotated sites. The linker fills this slice.
#[doc(hidden)]
#[distributed_slice]
pub static SITES: [Site];

/// Returns every annotated site of the program, sorted by name.
pub fn sites() -> impl Iterator<Item = &'static Site> {
    let mut sites: Vec<_> = SITES.iter().collect();
    sites.sort_by_key(|site| (site.name(), site.spec().line));
    sites.into_iter()
}

/// Declares a site: the registered static that the generated method uses, and its record.
///
/// `json` is the record's JSON, a constant. Without it, the compiler writes the record from the other fields and
/// `key_json`. This takes the compiler some milliseconds, and is for kernels whose key the attribute does not know.
#[doc(hidden)]
#[macro_export]
macro_rules! __declare_site {
    (static $name:ident = {
        kernel: $kernel:expr,
        item: $item:expr,
        $(path: $path:expr,)?
        form: $form:expr,
        key: $key:expr,
        key_json: $key_json:expr,
        layer: $layer:expr
        $(, condition: $condition:expr)? $(,)?
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
                    path: {
                        let path: ::core::option::Option<$crate::registry::PathInside> = ::core::option::Option::None;
                        $(let path = $path;)?
                        path
                    },
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
                    condition: {
                        let condition: ::core::option::Option<&'static str> = ::core::option::Option::None;
                        $(let condition = $condition;)?
                        condition
                    },
                }
            };
            const LEN: usize = $crate::registry::section::site_record::<0>(&SPEC, $key_json).1;
            $crate::__in_link_section! {
                static RECORD: [u8; LEN] =
                    $crate::registry::section::site_record::<LEN>(&SPEC, $key_json).0;
            }
            $crate::registry::Site::new(SPEC, &RECORD)
        };
        $crate::__declare_site!(@spec $name);
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
        $crate::__declare_site!(@spec $name);
    };
    // The facts of the site that policies and mappings use.
    (@spec $name:ident) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::registry::SPECS)]
            #[linkme(crate = $crate::__private::linkme)]
            static SPEC: &$crate::registry::SiteSpec = $name.spec();
        };
    };
}
