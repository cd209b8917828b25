//! Registration of the functions of a loaded package.

use super::On;
use super::operations::OPERATIONS;
use crate::device::DeviceKinds;
use crate::registry::{
    Addition, CapabilityRange, FloatType, Gradient, Implementation, Refusal, add,
};
use crate::semantics::SemanticsKey;
use kernels_io::{escape, shorten};
use kernels_packages::binding::Binding;
use kernels_packages::{Backend, Bound, Loaded, Origin};
use thiserror::Error;

/// An implementation that [`register`] added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The name of the implementation, which policies prefer and reports name, such as `org/name@2`.
    pub implementation: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// The semantics that it computes.
    pub key: SemanticsKey,
    /// Its gradients.
    pub gradient: Gradient,
}

/// The reason why a package can't be registered. Nothing of it is.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The program has decided already, or has read a policy or a mapping.
    #[error(
        "{package}: it is too late to register kernels, because this program has asked for its \
        kernels already, as a policy, a \
         plan or an annotated layer does; call `packages::register` first, at the start of `main`"
    )]
    TooLate {
        /// The package.
        package: String,
    },
    /// This version of the package is registered already.
    #[error("{package}: `{name}` is registered already")]
    Twice {
        /// The package.
        package: String,
        /// The name of its implementations.
        name: String,
    },
    /// A kernel that is linked in has the name of the package.
    #[error(
        "{package}: a kernel of this program has the id `{name}`; give the package another name"
    )]
    Taken {
        /// The package.
        package: String,
        /// Its name.
        name: String,
    },
    /// The package has no functions that implementations can be made of.
    #[error("{package}: {problem}")]
    Package {
        /// The package.
        package: String,
        /// The reason.
        problem: String,
    },
    /// A binding is not one of an operation of this release.
    #[error("{package}: burn-kernels.json: the binding of `{function}`: {problem}")]
    Binding {
        /// The package.
        package: String,
        /// The function.
        function: String,
        /// The reason, and what to do.
        problem: String,
    },
}

/// Registers every function of a loaded package that is bound to an operation as an implementation of that operation's
/// kernel. See the [module](super) for their names and how they are chosen.
///
/// The functions live as long as the program, because packages are never unloaded.
///
/// # Errors
/// Returns an error if the kernels of the program were asked for before, if this version of the package is registered
/// already, if the package is for NPUs and this build is not, if it binds no function, or if a binding names an operation,
/// semantics, a tensor or a number that this release does not know. Then no function is registered.
pub fn register(loaded: &Loaded) -> Result<Vec<Registered>, Error> {
    let package = loaded.name().to_owned();
    let (on, version) = usable(loaded).map_err(|problem| Error::Package {
        package: package.clone(),
        problem,
    })?;
    let name = match loaded.origin() {
        Origin::Repository { repository, .. } => repository.to_string(),
        Origin::Folder(_) => loaded.metadata().name.clone(),
    };
    let full = format!("{name}@{version}");
    let (name, implementation): (&'static str, &'static str) = (name.leak(), full.leak());
    let (mut registered, mut additions) = (Vec::new(), Vec::new());
    for bound in loaded.bound() {
        let made = made(implementation, bound, on).map_err(|problem| Error::Binding {
            package: package.clone(),
            function: bound.forward.function.name().to_owned(),
            problem,
        });
        let (kernel, key, implementation) = made?;
        registered.push(Registered {
            implementation: implementation.name,
            operation: key.op(),
            key,
            gradient: implementation.gradient,
        });
        additions.push(Addition {
            package: name,
            version,
            kernel,
            implementation,
        });
    }
    match add(additions) {
        Ok(()) => Ok(registered),
        Err(Refusal::TooLate) => Err(Error::TooLate { package }),
        Err(Refusal::Twice) => Err(Error::Twice {
            package,
            name: implementation.to_owned(),
        }),
        Err(Refusal::Taken) => Err(Error::Taken {
            package,
            name: name.to_owned(),
        }),
    }
}

/// Returns the devices and the version of a package that has functions for this release.
fn usable(loaded: &Loaded) -> Result<(On, u32), String> {
    let on = match loaded.variant().backend {
        Backend::Cpu => On::Cpu,
        #[cfg(feature = "npu")]
        Backend::Cann { .. } => On::Npus,
        #[cfg(not(feature = "npu"))]
        Backend::Cann { .. } => {
            return Err(format!(
                "the variant {} is one for NPUs, which this program was built without; build it with the feature `npu`",
                escape(&loaded.variant().to_string())
            ));
        }
    };
    if loaded.bound().is_empty() {
        return Err(
            "it binds no function to an operation; burn-kernels.json in the folder of the variant does that".into(),
        );
    }
    let version = loaded.metadata().version;
    let number = u32::try_from(version);
    let number = number.map_err(|_| format!("the version {version} is too large"))?;
    Ok((on, number))
}

/// Returns the id of the linked kernel, the key and the implementation of a binding.
fn made(
    name: &'static str,
    bound: &Bound,
    on: On,
) -> Result<(&'static str, SemanticsKey, Implementation), String> {
    let binding = &bound.binding;
    let known = OPERATIONS.iter();
    let known = known.filter(|known| on == On::Cpu || known.on_npus);
    let operation = known.clone().find(|known| known.name == binding.operation);
    let operation = operation.ok_or_else(|| {
        let names: Vec<_> = known.map(|known| known.name).collect();
        format!(
            "functions of packages{} can't compute the operation `{}`; they can compute {}",
            if on == On::Cpu { "" } else { " for NPUs" },
            binding.operation,
            names.join(", ")
        )
    })?;
    let json = serde_json::from_str(&binding.semantics).map_err(|error| error.to_string())?;
    let key = SemanticsKey::from_json(&json).ok_or_else(|| {
        format!(
            "this release does not know the semantics {}; they have every setting of the key, as \
            `kernels list --json` shows \
             them for sites, and no other one",
            escape(&shorten(&binding.semantics, 1000))
        )
    })?;
    let launch = (operation.launch)(name, bound, Box::leak(Box::new(key)), on)?;
    let (device, limits) = match on {
        On::Cpu => (DeviceKinds::CPU, None),
        #[cfg(feature = "npu")]
        On::Npus => (DeviceKinds::NPU, Some(super::npu::LIMITS)),
    };
    let implementation = Implementation {
        device,
        name,
        dtypes: dtypes(binding).leak(),
        gradient: match binding.backward {
            Some(_) => Gradient::Kernel,
            None => Gradient::Reference,
        },
        deterministic: false,
        fusion_barrier: false,
        capability: CapabilityRange::ANY,
        accepts: |_| true,
        limits,
        operators: None,
        launch,
    };
    Ok((operation.kernel, key, implementation))
}

/// Returns the types of a binding, which its reader has checked.
pub(super) fn dtypes(binding: &Binding) -> Vec<FloatType> {
    let all = FloatType::ALL.into_iter();
    all.filter(|float| binding.dtypes.iter().any(|name| name == float.name()))
        .collect()
}
