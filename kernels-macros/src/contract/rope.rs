//! `npu_fused_rope`: rotary position embedding of queries and keys.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::{
    CallContext, Conflict, Contract, ForeignField, Key, Operand, Returns, Role, Setting, Shape,
    Tell, When, choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_rope",
    variant: &[],
    docs,
    key: "Rope",
    op: "rope",
    settings: SETTINGS,
    conflicts: &[NEIGHBOURS_IN_HALVES, SECTIONS_BY_HALVES, SECTIONS_IN_HALVES],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: &[],
    body_calls: &[NEIGHBOURS],
};

pub(super) const NEIGHBOURS_IN_HALVES: Conflict = Conflict {
    all: &[
        is("table", &["neighbours"]),
        is("style", &["half", "interleaved_to_half"]),
    ],
    message: "`table = neighbours` holds every angle twice in a row, which only \
              `style = interleaved` reads; for results in halves write `table = halves` \
              (cat(freqs, freqs)) or `table = pairs` (every angle once)",
};

pub(super) const SECTIONS_BY_HALVES: Conflict = Conflict {
    all: &[
        is("sections", &["chunked", "interleaved"]),
        is("style", &["interleaved", "interleaved_to_half"]),
    ],
    message: "sections of three positions are rotated by halves; write `style = half`",
};

pub(super) const SECTIONS_IN_HALVES: Conflict = Conflict {
    all: &[
        is("sections", &["chunked", "interleaved"]),
        is("table", &["neighbours", "pairs"]),
    ],
    message: "tables for three positions hold every angle twice, as cat(freqs, freqs); \
              write `table = halves`",
};

pub(super) const NEIGHBOURS: Tell = Tell {
    words: &["rotateeverytwo", "rotateinterleaved", "rotatepairs"],
    fits: Some(is("style", &["interleaved", "interleaved_to_half"])),
    advice: "it pairs neighbouring elements: write `style = interleaved`, or \
             `interleaved_to_half` if the results stand in halves",
};

const SETTINGS: &[Setting] = &[STYLE, WIDTH, LAYOUT, TABLE, SECTIONS];

pub(super) const STYLE: Setting = Setting {
    name: "style",
    type_name: "RopeStyle",
    choices: &[
        choice("half", "Half"),
        choice("interleaved", "Interleaved"),
        choice("interleaved_to_half", "InterleavedToHalf"),
    ],
    other_words: &[
        ("neox", "style = half"),
        ("rotate_half", "style = half"),
        ("gptj", "style = interleaved"),
        ("neighbours", "style = interleaved"),
        ("mrope", "sections = chunked` or `sections = interleaved"),
        ("partial", "width = partial"),
    ],
};

pub(super) const WIDTH: Setting = Setting {
    name: "width",
    type_name: "RotaryWidth",
    choices: &[choice("full", "Full"), choice("partial", "Partial")],
    other_words: &[],
};

pub(super) const LAYOUT: Setting = Setting {
    name: "layout",
    type_name: "HeadLayout",
    choices: &[choice("bnsd", "Bnsd"), choice("bsnd", "Bsnd")],
    other_words: &[("bhsd", "layout = bnsd"), ("bshd", "layout = bsnd")],
};

pub(super) const TABLE: Setting = Setting {
    name: "table",
    type_name: "TableLayout",
    choices: &[
        choice("halves", "Halves"),
        choice("neighbours", "Neighbours"),
        choice("pairs", "Pairs"),
    ],
    other_words: &[
        ("repeat_interleave", "table = neighbours"),
        ("neighbors", "table = neighbours"),
        ("interleaved", "table = neighbours"),
        ("half", "table = halves"),
        ("complex", "table = pairs"),
    ],
};

pub(super) const SECTIONS: Setting = Setting {
    name: "sections",
    type_name: "Sections",
    choices: &[
        choice("none", "None"),
        choice("chunked", "Chunked"),
        choice("interleaved", "Interleaved"),
    ],
    other_words: &[("mrope", "sections = chunked` or `sections = interleaved")],
};

const ROTARY_WIDTH: ForeignField = ForeignField {
    names: &["rotary_dim", "partial_rotary_factor"],
    unless: Some(is("width", &["partial"])),
    instead_of: &[],
    advice: "a rotation of a part of each head is `width = partial`: as much of it as the tables \
             are wide",
};

pub(super) const FOREIGN_FIELDS: &[ForeignField] = &[
    ROTARY_WIDTH,
    ForeignField {
        names: &["mrope_section"],
        unless: Some(is("sections", &["chunked", "interleaved"])),
        instead_of: &[],
        advice: "three positions a token are `sections = chunked` (Qwen2.5-VL) or \
                 `sections = interleaved` (Qwen3-VL)",
    },
];

const ONE_POSITION: super::Condition = is("sections", &["none"]);
const THREE_POSITIONS: super::Condition = is("sections", &["chunked", "interleaved"]);

const ONE: When = When::With(&[ONE_POSITION]);
const THREE: When = When::With(&[THREE_POSITIONS]);

/// Returns an operand that is a table of the rotation, or says how its positions are divided.
const fn table(
    name: &'static str,
    usual: &'static [&'static str],
    role: Role,
    when: When,
) -> Operand {
    Operand {
        name,
        role,
        usual,
        when,
    }
}
pub(super) const COS: Operand = table("cos", &["cos"], Role::Table, ONE);
pub(super) const SIN: Operand = table("sin", &["sin"], Role::Table, ONE);
pub(super) const SECTION_COS: Operand = table("cos", &["cos"], Role::SectionTable, THREE);
pub(super) const SECTION_SIN: Operand = table("sin", &["sin"], Role::SectionTable, THREE);
pub(super) const SECTION_SIZES: Operand = table(
    "mrope_section",
    &["mrope_section", "sections"],
    Role::Sections,
    THREE,
);

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "q",
            role: Role::Tensor { rank: Some(4) },
            usual: &["q", "query", "query_states"],
            when: When::Always,
        },
        Operand {
            name: "k",
            role: Role::Tensor { rank: Some(4) },
            usual: &["k", "key", "key_states"],
            when: When::Always,
        },
        COS,
        SIN,
        SECTION_COS,
        SECTION_SIN,
        SECTION_SIZES,
    ],
    returns: Returns::Pair {
        does: "rotates queries and keys together",
        written: "(Tensor<4>, Tensor<4>)",
    },
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    let CallContext {
        runtime,
        at,
        reference,
        ..
    } = call;
    let (function, operands) = operands(call);
    quote!(#runtime::#function(#at, #operands, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (function, operands) = operands(call);
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// The function, for one position a token or three, and its operands.
fn operands(call: &CallContext<'_>) -> (Ident, TokenStream) {
    let [q, k] = ["q", "k"].map(|operand| call.value(operand));
    let [cos, sin] = ["cos", "sin"].map(|operand| call.shared(operand));
    match call.key.choice("sections") {
        Some("none") | None => (format_ident!("rope"), quote!(#q, #k, #cos, #sin)),
        Some(_) => {
            let lengths = call.read("mrope_section", "SectionLengths", "lengths");
            let operands = quote!(#q, #k, #cos, #sin, #lengths);
            (format_ident!("rope_sections"), operands)
        }
    }
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let partial = is("width", "partial");
    let width = match partial {
        true => "w",
        false => "dim",
    };
    let pairs = match key.choice("style") {
        Some("interleaved") => "element `2i` with `2i + 1`".to_owned(),
        Some("interleaved_to_half") => {
            format!("element `2i` with `2i + 1`, and writes the results to `i` and `i + {width}/2`")
        }
        _ => format!("element `i` with `i + {width}/2`"),
    };
    let rotated = match partial {
        true => {
            "the first `w` elements of each head, as wide as the tables are; the rest passes \
                 through"
        }
        false => "whole heads",
    };
    let [q, k] = match is("layout", "bsnd") {
        true => ["[batch, seq, heads, dim]", "[batch, seq, kv_heads, dim]"],
        false => ["[batch, heads, seq, dim]", "[batch, kv_heads, seq, dim]"],
    };
    let columns = match (key.choice("table"), partial) {
        (Some("pairs"), _) => format!("{width}/2"),
        _ => width.to_owned(),
    };
    let angles = match key.choice("table") {
        Some("neighbours") => "every angle twice in a row",
        Some("pairs") => "every angle once",
        _ => "every angle twice, as `cat(freqs, freqs)`",
    };
    let tables = match key.choice("sections") {
        Some("chunked") => format!(
            "`[3, batch, seq, {columns}]`, for time, height and width: the first pairs take \
             the first, as many as its section is long, and so on; they hold {angles}"
        ),
        Some("interleaved") => format!(
            "`[3, batch, seq, {columns}]`, for time, height and width, which the pairs take in \
             turn; they hold {angles}"
        ),
        _ => format!(
            "`[seq, {columns}]`, with a batch dimension (and a head dimension of 1) before it or \
             not, and hold {angles}"
        ),
    };
    format!(
        "Rotary position embedding of queries and keys: turns the pair `(a, b)` into \
         `(a · cos - b · sin, b · cos + a · sin)`. It pairs {pairs}, and rotates {rotated}.\n\n\
         `q` is `{q}` and `k` is `{k}`; `cos` and `sin` are {tables}. The results have the shapes \
         and dtypes of `q` and `k`."
    )
}
