//! Passes of operations: their launches, and the bytes that they move.

use crate::offline::{Launched, Offline, buffer};
use cubecl::prelude::{BufferArg, CubeCount, CubeDim};
use cubecl::server::Handle;
use cubecl_runtime::client::Client;
use serde::Serialize;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The bytes of a number in f32 or i32.
const BYTES: usize = 4;

/// The use of a buffer in a pass, which says how often its bytes have to move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Read.
    Operand,
    /// Written, also if it is read again.
    Result,
    /// Read and written in place.
    Changed,
    /// Written by one kernel for the next.
    Between,
}

/// A buffer of numbers of 32 bits.
pub struct Buffer {
    handle: Handle,
    elements: usize,
}

impl Buffer {
    /// Returns the argument of a kernel.
    pub fn arg(&self) -> BufferArg {
        // SAFETY: nothing runs.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.elements) }
    }

    /// Returns the argument for a result in the place of the argument at `position`.
    pub fn in_place_of(&self, position: usize) -> BufferArg {
        BufferArg::Alias {
            input_pos: position,
            length: [self.elements],
        }
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

/// The compiled kernels and the passes.
pub struct Passes {
    folder: PathBuf,
    device: Offline,
    size: usize,
    written: BTreeSet<String>,
    found: Found,
}

#[derive(Default, Serialize)]
struct Found {
    kernels: Vec<Kernel>,
    passes: Vec<Moved>,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    dtype: &'static str,
    vector: usize,
    units: usize,
    file: String,
    shared: usize,
}

/// The bytes that a pass moves.
#[derive(Serialize)]
struct Moved {
    name: String,
    vector: usize,
    launches: usize,
    bytes: u64,
    least: u64,
}

impl Passes {
    pub fn new(folder: &Path) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            device: Offline::new(),
            size: 1,
            written: BTreeSet::new(),
            found: Found::default(),
        })
    }

    /// Sets the size of vectors of the next passes.
    pub fn vector(&mut self, size: usize) {
        self.size = size;
    }

    /// Starts a pass.
    pub fn pass(&mut self, name: &str) -> Pass<'_> {
        Pass {
            moved: Moved {
                name: name.to_owned(),
                vector: self.size,
                launches: 0,
                bytes: 0,
                least: 0,
            },
            all: self,
        }
    }

    /// Writes the list of kernels and passes.
    pub fn finish(self) -> Result<(), Box<dyn Error>> {
        let text = serde_json::to_string_pretty(&self.found)?;
        fs::write(self.folder.join("kernels.json"), text)?;
        println!(
            "{} kernels, {} passes",
            self.found.kernels.len(),
            self.found.passes.len()
        );
        Ok(())
    }
}

/// A pass of an operation.
pub struct Pass<'a> {
    all: &'a mut Passes,
    moved: Moved,
}

impl Pass<'_> {
    /// Returns the name, which is that of its first kernel.
    pub fn name(&self) -> String {
        self.moved.name.clone()
    }

    /// Returns the size of vectors.
    pub fn size(&self) -> usize {
        self.all.size
    }

    /// Makes a buffer.
    pub fn buffer(&mut self, elements: usize, role: Role) -> Buffer {
        let bytes = (elements * BYTES) as u64;
        self.moved.least += match role {
            Role::Operand | Role::Result => bytes,
            Role::Changed => 2 * bytes,
            Role::Between => 0,
        };
        if role == Role::Changed {
            // A launch counts each buffer once.
            self.moved.bytes += bytes;
        }
        Buffer {
            handle: buffer(bytes),
            elements,
        }
    }

    /// Launches a kernel with `units` units. The first launch of a name compiles it.
    pub fn launch(
        &mut self,
        name: &str,
        units: usize,
        launch: impl FnOnce(&Client, CubeCount, CubeDim),
    ) {
        let dim = CubeDim::new_1d(u32::try_from(units).expect("a few hundred units"));
        launch(&self.all.device.client, CubeCount::new_single(), dim);
        let Launched {
            source,
            shared,
            bytes,
        } = self.all.device.launched(name);
        self.moved.launches += 1;
        self.moved.bytes += bytes;
        let file = format!("{}-{}.cu", name.replace(' ', "-"), self.all.size);
        if !self.all.written.insert(file.clone()) {
            return;
        }
        fs::write(self.all.folder.join(&file), source).expect("the folder takes files");
        self.all.found.kernels.push(Kernel {
            name: name.to_owned(),
            dtype: "f32",
            vector: self.all.size,
            units,
            file,
            shared,
        });
    }

    /// Launches the sum of `parts` rows of `columns` elements.
    pub fn sum_rows(&mut self, parts: &Buffer, rows: usize, columns: usize) {
        let result = self.buffer(columns, Role::Result);
        let size = self.size();
        self.launch("sum of parts", 256, |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                crate::gpu::sum::sum_rows::launch_unchecked(
                    client,
                    count,
                    dim,
                    size,
                    parts.arg(),
                    result.arg(),
                    rows,
                    columns / size,
                );
            }
        });
    }

    /// Ends the pass.
    pub fn end(self) {
        self.all.found.passes.push(self.moved);
    }
}

/// Returns the number of units of a cube that works on `items` of them together.
pub fn units(items: usize) -> usize {
    items.next_power_of_two().clamp(32, 256)
}

/// The division of the rows of these passes into parts, as `gpu::rows` has it.
pub struct Parts {
    pub rows: usize,
    pub count: usize,
}

impl Parts {
    pub fn of(rows: usize) -> Self {
        let each = rows.div_ceil(256).max(16);
        Self {
            rows: each,
            count: rows.div_ceil(each),
        }
    }
}
