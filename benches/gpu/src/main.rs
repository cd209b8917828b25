//! Prints the CUDA code of the GPU kernels, as CubeCL's C++ compiler makes it, with the bytes that each pass moves.
//!
//! The kernels are the files of `kernels-runtime`, under the same paths. They are launched on a device that compiles and
//! runs nothing, with as many units and the same variants as on a real one. `sass.py` compiles the code further.
//!
//! ```sh
//! cargo run --manifest-path benches/gpu/Cargo.toml -- FOLDER
//! ```

// The name under which the kernels use CubeCL.
extern crate self as burn_cubecl;
pub use cubecl;

mod gpu;
mod offline;
mod passes;
mod semantics;

/// The operations: their keys and kernels, and the launches of each pass.
mod ops {
    pub mod adam_w {
        pub mod cube;
    }
    pub mod attention {
        pub mod cube;
    }
    pub mod cross_entropy {
        pub mod cube;
        #[allow(dead_code, reason = "the kernels need parts of it")]
        #[path = "../../../../../kernels-runtime/src/ops/cross_entropy/key.rs"]
        pub mod key;
    }
    pub mod glu {
        pub mod cube;
        #[allow(dead_code, reason = "the kernels need parts of it")]
        #[path = "../../../../../kernels-runtime/src/ops/glu/key.rs"]
        pub mod key;
    }
    pub mod layer_norm {
        pub mod cube;
    }
    pub mod linear_cross_entropy {
        pub mod cube;
    }
    pub mod moe {
        pub mod cube {
            pub mod sort;
        }
        pub mod experts {
            pub mod cube;
        }
        pub mod grouped_matmul {
            pub mod cube;
        }
        pub mod permute {
            pub mod cube;
        }
        pub mod router {
            pub mod cube;
            #[allow(dead_code, reason = "the kernels need parts of it")]
            #[path = "../../../../../../kernels-runtime/src/ops/moe/router/key.rs"]
            pub mod key;
        }
    }
    pub mod qk_norm_rope {
        pub mod cube;
    }
    pub mod rms_norm {
        pub mod cube;
        #[allow(dead_code, reason = "the kernels need parts of it")]
        #[path = "../../../../../kernels-runtime/src/ops/rms_norm/key.rs"]
        pub mod key;
    }
    pub mod rope {
        pub mod cube;
    }
}

use cubecl::ir::FloatKind;
use passes::Passes;
use std::error::Error;
use std::path::Path;

/// The types of elements.
const ELEMENTS: [FloatKind; 3] = [FloatKind::F32, FloatKind::F16, FloatKind::BF16];

/// The numbers of elements that a unit reads at once.
const VECTORS: [usize; 3] = [4, 2, 1];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: gpu-code FOLDER")?;
    let mut passes = Passes::new(Path::new(&folder))?;
    for (element, size) in ELEMENTS
        .iter()
        .flat_map(|each| VECTORS.map(|size| (*each, size)))
    {
        passes.of(element, size);
        ops::rms_norm::cube::all(&mut passes);
        ops::layer_norm::cube::all(&mut passes);
        ops::glu::cube::all(&mut passes);
        ops::rope::cube::all(&mut passes);
        ops::qk_norm_rope::cube::all(&mut passes);
        ops::cross_entropy::cube::all(&mut passes);
        ops::adam_w::cube::all(&mut passes);
        ops::linear_cross_entropy::cube::all(&mut passes);
        ops::attention::cube::all(&mut passes);
        ops::moe::router::cube::all(&mut passes);
        ops::moe::permute::cube::all(&mut passes);
        ops::moe::grouped_matmul::cube::all(&mut passes);
        ops::moe::experts::cube::all(&mut passes);
        // Integers alone.
        if element == FloatKind::F32 {
            ops::moe::cube::sort::all(&mut passes);
        }
    }
    passes.finish()
}
