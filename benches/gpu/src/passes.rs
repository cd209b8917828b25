//! Passes of operations: their launches, and the bytes that they move.

use crate::offline::{Launched, Offline, buffer};
use cubecl::ir::FloatKind;
use cubecl::prelude::{BufferArg, CubeCount, CubeDim, ElemType};
use cubecl::server::Handle;
use cubecl_runtime::client::Client;
use serde::Serialize;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The bytes of a number in f32 or i32.
const BYTES: usize = 4;

/// Returns the bytes of an element.
fn bytes_of(element: FloatKind) -> usize {
    match element {
        FloatKind::F16 | FloatKind::BF16 => 2,
        _ => BYTES,
    }
}

/// Returns the name of a type of elements.
fn name_of(element: FloatKind) -> &'static str {
    match element {
        FloatKind::F16 => "f16",
        FloatKind::BF16 => "bf16",
        _ => "f32",
    }
}

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

/// A buffer.
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
    element: FloatKind,
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
    dtype: &'static str,
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
            element: FloatKind::F32,
            size: 1,
            written: BTreeSet::new(),
            found: Found::default(),
        })
    }

    /// Sets the elements and the size of vectors of the next passes.
    pub fn of(&mut self, element: FloatKind, size: usize) {
        (self.element, self.size) = (element, size);
    }

    /// Starts a pass.
    pub fn pass(&mut self, name: &str) -> Pass<'_> {
        Pass {
            moved: Moved {
                name: name.to_owned(),
                dtype: name_of(self.element),
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

    /// Returns the type of elements, as kernels take it.
    pub fn element(&self) -> ElemType {
        ElemType::Float(self.all.element)
    }

    /// Returns `true` if elements are rounded numbers.
    pub fn is_half(&self) -> bool {
        bytes_of(self.all.element) != BYTES
    }

    /// Makes a buffer of elements.
    pub fn buffer(&mut self, elements: usize, role: Role) -> Buffer {
        self.bytes(elements, bytes_of(self.all.element), role)
    }

    /// Makes a buffer of numbers in f32 or i32.
    pub fn numbers(&mut self, elements: usize, role: Role) -> Buffer {
        self.bytes(elements, BYTES, role)
    }

    fn bytes(&mut self, elements: usize, of_each: usize, role: Role) -> Buffer {
        let bytes = (elements * of_each) as u64;
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

    /// Launches a kernel with `units` units. The first launch of a name compiles it for the elements and vectors.
    pub fn launch(
        &mut self,
        name: &str,
        units: usize,
        launch: impl FnOnce(&Client, CubeCount, CubeDim),
    ) {
        let of = (self.all.element, self.all.size);
        self.launch_of(of, name, units, launch);
    }

    /// Launches a kernel that has no elements, but single numbers in f32.
    pub fn launch_of_numbers(
        &mut self,
        name: &str,
        units: usize,
        launch: impl FnOnce(&Client, CubeCount, CubeDim),
    ) {
        self.launch_of((FloatKind::F32, 1), name, units, launch);
    }

    fn launch_of(
        &mut self,
        (element, vector): (FloatKind, usize),
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
        let dtype = name_of(element);
        let file = format!("{}-{dtype}-{vector}.cu", name.replace(' ', "-"));
        if !self.all.written.insert(file.clone()) {
            return;
        }
        fs::write(self.all.folder.join(&file), source).expect("the folder takes files");
        self.all.found.kernels.push(Kernel {
            name: name.to_owned(),
            dtype,
            vector,
            units,
            file,
            shared,
        });
    }

    /// Launches the sum of `parts` rows of `columns` elements.
    pub fn sum_rows(&mut self, parts: &Buffer, rows: usize, columns: usize) {
        let result = self.buffer(columns, Role::Result);
        let (size, element) = (self.size(), self.element());
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
                    0,
                    columns / size,
                    ACROSS,
                    256 / ACROSS,
                    element,
                );
            }
        });
    }

    /// Ends the pass.
    pub fn end(self) {
        self.all.found.passes.push(self.moved);
    }
}

/// Returns the number of vectors of a row that each unit of a cube holds in registers, as `gpu::rows` does.
pub fn held(vectors: usize, units: usize) -> Option<usize> {
    Some(vectors.div_ceil(units)).filter(|each| *each <= 8)
}

/// The vectors of a row that a cube adds up, as `gpu::rows` has it.
const ACROSS: usize = 8;

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
        Self::of_rows(rows, rows.div_ceil(256).max(16))
    }

    pub fn for_cubes(rows: usize, units: usize) -> Self {
        Self::of_rows(rows, rows.div_ceil((1 << 17) / units).max(8))
    }

    fn of_rows(rows: usize, each: usize) -> Self {
        Self {
            rows: each,
            count: rows.div_ceil(each),
        }
    }
}
