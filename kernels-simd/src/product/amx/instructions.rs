//! The instructions of AMX, which stable Rust has only in assembly.

use super::Tile;
use std::arch::asm;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Returns whether this machine has AMX for bf16, and the operating system lets this process use it.
pub(in super::super) fn available() -> bool {
    #[cfg(test)]
    if super::tests::instead().is_some() {
        return false;
    }
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| super::super::tiles::available() && has_instructions() && permitted())
}

/// Returns whether the processor has tiles and their products of bf16.
fn has_instructions() -> bool {
    const BF16: u32 = 1 << 22;
    const TILES: u32 = 1 << 24;
    let most = std::arch::x86_64::__cpuid(0).eax;
    most >= 7 && std::arch::x86_64::__cpuid_count(7, 0).edx & (BF16 | TILES) == BF16 | TILES
}

/// Asks Linux for the state of tiles, which a process has only on request
/// (<https://docs.kernel.org/arch/x86/xstate.html>). The permission is for all threads.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    // SAFETY: the call takes two numbers and touches no memory of this process.
    unsafe {
        libc::syscall(
            libc::SYS_arch_prctl,
            ARCH_REQ_XCOMP_PERM,
            XFEATURE_XTILEDATA,
        ) == 0
    }
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The sizes of the tiles (Intel SDM, `LDTILECFG`): each of eight has 16 lines of 64 bytes.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    lines: [u8; 16],
}

static WHOLE: Configuration = Configuration {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    lines: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Asks for the 16 cache lines of the tile of columns that is two steps ahead in a list. Nothing is read: the end of a
/// list may be passed. Columns are the operand that is read from the second-level cache.
macro_rules! ahead {
    ($list:literal) => {
        concat!(
            ".irp place, 2048, 2112, 2176, 2240, 2304, 2368, 2432, 2496, ",
            "2560, 2624, 2688, 2752, 2816, 2880, 2944, 3008\n",
            "prefetcht0 [{",
            $list,
            "} + \\place]\n",
            ".endr"
        )
    };
}

/// Asks for cache lines of the rows that are read after these, which come from the third-level cache. Nothing is read.
macro_rules! ahead_of_rows {
    () => {
        concat!(
            ".irp place, 0, 64, 128, 192\n",
            "prefetcht1 [{next} + \\place]\n",
            ".endr\n",
            "add {next}, 256"
        )
    };
}

/// Asks for two lines of 32 sums, which are written soon. Nothing is read.
macro_rules! ahead_of_sums {
    () => {
        concat!(
            "prefetchw [{next}]\n",
            "prefetchw [{next} + 64]\n",
            "prefetchw [{next} + {stride}]\n",
            "prefetchw [{next} + {stride} + 64]\n",
            "lea {next}, [{next} + 2*{stride}]"
        )
    };
}

/// A step of two tiles of rows by two of columns.
macro_rules! step_of_two {
    () => {
        concat!(
            "tileloadd tmm4, [{a} + {line}*1]\n",
            "tileloadd tmm6, [{c} + {line}*1]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            ahead!("c"),
            "\ntileloadd tmm7, [{d} + {line}*1]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            ahead!("d"),
            "\ntileloadd tmm5, [{b} + {line}*1]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7",
        )
    };
}

/// The bytes of rows that [`Unit::two_in_parts`] asks for in each step.
pub(super) const AHEAD: usize = 768;

/// The place of a block of sums: its first element, and the number of elements to the next line.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) first: *mut f32,
    pub(super) stride: usize,
}

/// Sums of two tiles of rows by two of columns: what [`Unit::two`] and [`Unit::two_in_parts`] share around the instructions of
/// a step, after which each list is `bytes` further.
macro_rules! two_by_two {
    (
        [$($step:expr),+ $(,)?], $bytes:literal,
        $left:expr, $right:expr, $steps:expr, $out:expr, $add:expr
        $(, $more:ident = $value:expr)?
    ) => {{
        let stride = size_of::<f32>() * $out.stride;
        asm!(
            "test {add}, {add}",
            "jnz 3f",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "jmp 2f",
            "3:",
            "tileloadd tmm0, [{top} + {stride}*1]",
            "tileloadd tmm1, [{top} + {stride}*1 + 64]",
            "tileloadd tmm2, [{below} + {stride}*1]",
            "tileloadd tmm3, [{below} + {stride}*1 + 64]",
            "2:",
            $($step,)+
            concat!("add {a}, ", $bytes),
            concat!("add {b}, ", $bytes),
            concat!("add {c}, ", $bytes),
            concat!("add {d}, ", $bytes),
            "dec {steps}",
            "jnz 2b",
            "tilestored [{top} + {stride}*1], tmm0",
            "tilestored [{top} + {stride}*1 + 64], tmm1",
            "tilestored [{below} + {stride}*1], tmm2",
            "tilestored [{below} + {stride}*1 + 64], tmm3",
            $($more = inout(reg) $value => _,)?
            add = in(reg) usize::from($add),
            a = inout(reg) $left[0] => _,
            b = inout(reg) $left[1] => _,
            c = inout(reg) $right[0] => _,
            d = inout(reg) $right[1] => _,
            line = in(reg) 64_usize,
            steps = inout(reg) $steps => _,
            top = in(reg) $out.first,
            below = in(reg) $out.first.wrapping_add(16 * $out.stride),
            stride = in(reg) stride,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }};
}

/// As [`two_by_two`], of one tile of rows.
macro_rules! one_by_two {
    (
        [$($step:expr),+ $(,)?], $bytes:literal,
        $left:expr, $right:expr, $steps:expr, $out:expr, $add:expr
    ) => {{
        let stride = size_of::<f32>() * $out.stride;
        asm!(
            "test {add}, {add}",
            "jnz 3f",
            "tilezero tmm0",
            "tilezero tmm1",
            "jmp 2f",
            "3:",
            "tileloadd tmm0, [{top} + {stride}*1]",
            "tileloadd tmm1, [{top} + {stride}*1 + 64]",
            "2:",
            $($step,)+
            concat!("add {a}, ", $bytes),
            concat!("add {c}, ", $bytes),
            concat!("add {d}, ", $bytes),
            "dec {steps}",
            "jnz 2b",
            "tilestored [{top} + {stride}*1], tmm0",
            "tilestored [{top} + {stride}*1 + 64], tmm1",
            add = in(reg) usize::from($add),
            a = inout(reg) $left => _,
            c = inout(reg) $right[0] => _,
            d = inout(reg) $right[1] => _,
            line = in(reg) 64_usize,
            steps = inout(reg) $steps => _,
            top = in(reg) $out.first,
            stride = in(reg) stride,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }};
}

/// This thread's tiles, which are set up while it exists.
pub(super) struct Unit(PhantomData<*const ()>);

impl Unit {
    /// # Panics
    /// Panics if the machine has no [AMX](available).
    pub(super) fn new() -> Self {
        assert!(available(), "this machine has no AMX");
        // SAFETY: the machine has the instruction, which reads 64 bytes. Nothing else uses tiles.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE, options(nostack, readonly)) };
        Self(PhantomData)
    }

    /// Computes sums of two tiles of rows by two of columns, or adds them if `add`. Each operand is given as two lists of
    /// `steps` tiles.
    ///
    /// # Safety
    /// Each list must have `steps` tiles, at least one. `out` must have 32 lines of 32 elements, which nothing else
    /// accesses, and which are written if `add`.
    #[inline]
    pub(super) unsafe fn two(
        &self,
        left: [*const Tile; 2],
        right: [*const Tile; 2],
        steps: usize,
        out: Place,
        add: bool,
    ) {
        // SAFETY: the caller upholds the requirements, and tiles are set up.
        unsafe {
            two_by_two!([step_of_two!()], "1024", left, right, steps, out, add);
        }
    }

    /// Computes as [`two`](Self::two) does, and asks for the sums that follow in each line: the next ones, which come from the
    /// third-level cache.
    ///
    /// # Safety
    /// The requirements are those of [`two`](Self::two).
    #[inline]
    pub(super) unsafe fn two_of_many(
        &self,
        left: [*const Tile; 2],
        right: [*const Tile; 2],
        steps: usize,
        out: Place,
        add: bool,
    ) {
        let next = out.first.wrapping_add(2 * Tile::LINES);
        // SAFETY: the caller upholds the requirements, and tiles are set up.
        unsafe {
            two_by_two!(
                [step_of_two!(), ahead_of_sums!()],
                "1024",
                left,
                right,
                steps,
                out,
                add,
                next = next
            );
        }
    }

    /// Computes as [`two`](Self::two) does, with one tile of rows and 16 lines of `out`.
    ///
    /// # Safety
    /// The requirements are those of [`two`](Self::two).
    #[inline]
    pub(super) unsafe fn one(
        &self,
        left: *const Tile,
        right: [*const Tile; 2],
        steps: usize,
        out: Place,
        add: bool,
    ) {
        // SAFETY: the caller upholds the requirements, and tiles are set up.
        unsafe {
            one_by_two!(
                [
                    "tileloadd tmm4, [{a} + {line}*1]",
                    "tileloadd tmm6, [{c} + {line}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    ahead!("c"),
                    "tileloadd tmm7, [{d} + {line}*1]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    ahead!("d"),
                ],
                "1024",
                left,
                right,
                steps,
                out,
                add
            );
        }
    }

    /// Computes as [`two`](Self::two) does with numbers in [three parts](super::pack::bf16x3). The tiles of a step are
    /// three in each list. Sums begin with the products of the smallest parts of a step. At `next` are rows that are
    /// read soon, if there are any: [`AHEAD`] bytes for each step.
    ///
    /// # Safety
    /// The requirements are those of [`two`](Self::two), for lists of three times as many tiles.
    #[inline]
    pub(super) unsafe fn two_in_parts(
        &self,
        left: [*const Tile; 2],
        right: [*const Tile; 2],
        next: *const u8,
        steps: usize,
        out: Place,
        add: bool,
    ) {
        // SAFETY: the caller upholds the requirements, and tiles are set up.
        unsafe {
            two_by_two!(
                [
                    // The first parts of rows, and the third and second ones of columns.
                    "tileloadd tmm4, [{a} + {line}*1]",
                    "tileloadd tmm6, [{c} + {line}*1 + 2048]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{d} + {line}*1 + 2048]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{b} + {line}*1]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm6, [{c} + {line}*1 + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{d} + {line}*1 + 1024]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    ahead_of_rows!(),
                    // The second parts of rows, and the second and first ones of columns.
                    "tileloadd tmm4, [{a} + {line}*1 + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{b} + {line}*1 + 1024]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm6, [{c} + {line}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{d} + {line}*1]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    ahead_of_rows!(),
                    // The third and first parts of rows, and the first ones of columns.
                    "tileloadd tmm4, [{a} + {line}*1 + 2048]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{b} + {line}*1 + 2048]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm4, [{a} + {line}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{b} + {line}*1]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    ahead_of_rows!(),
                ],
                "3072",
                left,
                right,
                steps,
                out,
                add,
                next = next
            );
        }
    }

    /// Computes as [`two_in_parts`](Self::two_in_parts) does, with one tile of rows and 16 lines of `out`.
    ///
    /// # Safety
    /// The requirements are those of [`two_in_parts`](Self::two_in_parts).
    #[inline]
    pub(super) unsafe fn one_in_parts(
        &self,
        left: *const Tile,
        right: [*const Tile; 2],
        steps: usize,
        out: Place,
        add: bool,
    ) {
        // SAFETY: the caller upholds the requirements, and tiles are set up.
        unsafe {
            one_by_two!(
                [
                    "tileloadd tmm4, [{a} + {line}*1]",
                    "tileloadd tmm6, [{c} + {line}*1 + 2048]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{d} + {line}*1 + 2048]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm6, [{c} + {line}*1 + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{d} + {line}*1 + 1024]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{a} + {line}*1 + 1024]",
                    "tdpbf16ps tmm0, tmm5, tmm6",
                    "tdpbf16ps tmm1, tmm5, tmm7",
                    "tileloadd tmm6, [{c} + {line}*1]",
                    "tdpbf16ps tmm0, tmm5, tmm6",
                    "tileloadd tmm7, [{d} + {line}*1]",
                    "tdpbf16ps tmm1, tmm5, tmm7",
                    "tileloadd tmm5, [{a} + {line}*1 + 2048]",
                    "tdpbf16ps tmm0, tmm5, tmm6",
                    "tdpbf16ps tmm1, tmm5, tmm7",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                ],
                "3072",
                left,
                right,
                steps,
                out,
                add
            );
        }
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: the machine has the instruction, because tiles were set up. Tiles that stay set up are saved at each
        // change of threads.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
