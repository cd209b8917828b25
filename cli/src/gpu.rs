//! The GPUs of this machine, as given to `--device gpu`, `cuda` and `rocm`.

use crate::output;
use anyhow::anyhow;
use burn::tensor::Device;
use std::fmt;
use std::sync::OnceLock;

/// A GPU of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// The one that wgpu prefers.
    Preferred,
    /// One of NVIDIA's through CUDA, by its number.
    #[cfg(feature = "cuda")]
    Cuda(usize),
    /// One of AMD's through ROCm, by its number.
    #[cfg(feature = "rocm")]
    Rocm(usize),
}

impl Gpu {
    /// Returns the GPU of a name, or `None` for other devices.
    pub fn named(name: &str) -> Option<Result<Self, String>> {
        #[cfg(feature = "cuda")]
        if let Some(index) = crate::choice::numbered("cuda", name) {
            return Some(index.map(Self::Cuda));
        }
        #[cfg(feature = "rocm")]
        if let Some(index) = crate::choice::numbered("rocm", name) {
            return Some(index.map(Self::Rocm));
        }
        (name == "gpu").then_some(Ok(Self::Preferred))
    }

    /// Returns the device. The first call for a GPU of wgpu opens it and prints what it is, so that a software GPU is not
    /// taken for a real one.
    ///
    /// # Errors
    /// Returns an error if the GPU does not exist.
    pub fn device(self) -> anyhow::Result<Device> {
        match self {
            Self::Preferred => preferred(),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => nth(burn::tensor::DeviceType::Cuda, "CUDA", index),
            #[cfg(feature = "rocm")]
            Self::Rocm(index) => nth(burn::tensor::DeviceType::Rocm, "ROCm", index),
        }
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preferred => f.write_str("gpu"),
            #[cfg(feature = "cuda")]
            Self::Cuda(0) => f.write_str("cuda"),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            #[cfg(feature = "rocm")]
            Self::Rocm(0) => f.write_str("rocm"),
            #[cfg(feature = "rocm")]
            Self::Rocm(index) => write!(f, "rocm:{index}"),
        }
    }
}

fn preferred() -> anyhow::Result<Device> {
    static OPENED: OnceLock<Result<Device, String>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| {
        let device = Device::wgpu_options().init();
        let device = device.map_err(|error| error.to_string())?;
        if let Some(known) = device.identity() {
            output::note(format_args!("gpu is {}", kernels_io::escape(&known.name)));
        }
        Ok(device)
    });
    let opened = opened.clone();
    opened.map_err(|error| anyhow!("no GPU can be used: {}", kernels_io::escape(&error)))
}

/// Returns one of the devices of a runtime. Opening one that is not there would end the program without a sentence.
#[cfg(any(feature = "cuda", feature = "rocm"))]
fn nth(of: burn::tensor::DeviceType, runtime: &str, index: usize) -> anyhow::Result<Device> {
    let found = Device::enumerate(of);
    let count = found.iter().count();
    let device = found.iter().nth(index).cloned();
    device.ok_or_else(|| anyhow!("{runtime} has no device {index}; it finds {count} here"))
}
