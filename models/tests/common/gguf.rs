//! GGUF files, written byte by byte.

pub const F32: u32 = 0;
pub const Q4_0: u32 = 2;
pub const Q8_0: u32 = 8;

/// The parts of a file.
pub struct Parts {
    pub version: u32,
    pub tensors: u64,
    pub entries: u64,
    /// The bytes of the metadata.
    pub metadata: Vec<u8>,
    /// The bytes of the list of tensors.
    pub list: Vec<u8>,
    /// The number of bytes of the tensors.
    pub data: usize,
}

impl Parts {
    /// Returns the bytes before those of the tensors.
    pub fn header(&self) -> Vec<u8> {
        let mut bytes = [
            b"GGUF".to_vec(),
            word(self.version),
            long(self.tensors),
            long(self.entries),
            self.metadata.clone(),
            self.list.clone(),
        ]
        .concat();
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.resize(bytes.len() + self.data, 7);
        bytes
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

pub fn word(number: u32) -> Vec<u8> {
    number.to_le_bytes().into()
}

pub fn long(number: u64) -> Vec<u8> {
    number.to_le_bytes().into()
}

/// An entry of the list of tensors.
pub fn tensor(name: &str, axes: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let sizes = axes.iter().flat_map(|axis| axis.to_le_bytes()).collect();
    [
        text(name),
        word(axes.len() as u32),
        sizes,
        word(kind),
        long(offset),
    ]
    .concat()
}

/// A Llama of one layer with 64 tokens, with zeros in blocks of Q8_0.
pub fn llama(hidden: u64, inner: u64) -> Parts {
    llama_of(64, hidden, inner)
}

/// A Llama of one layer whose output projection is the embedding, with zeros in blocks of Q8_0.
pub fn llama_of(vocabulary: u64, hidden: u64, inner: u64) -> Parts {
    let number = |key: &str, number| [text(key), word(4), word(number)].concat();
    let epsilon = 1e-5_f32.to_bits();
    let metadata = [
        [text("general.architecture"), word(8), text("llama")].concat(),
        number("llama.context_length", 64),
        number("llama.embedding_length", hidden as u32),
        number("llama.block_count", 1),
        number("llama.feed_forward_length", inner as u32),
        number("llama.attention.head_count", 8),
        [
            text("llama.attention.layer_norm_rms_epsilon"),
            word(6),
            word(epsilon),
        ]
        .concat(),
    ];
    let square = [hidden, hidden];
    let tensors: [(&str, &[u64]); 11] = [
        ("token_embd.weight", &[hidden, vocabulary]),
        ("output_norm.weight", &[hidden]),
        ("blk.0.attn_norm.weight", &[hidden]),
        ("blk.0.attn_q.weight", &square),
        ("blk.0.attn_k.weight", &square),
        ("blk.0.attn_v.weight", &square),
        ("blk.0.attn_output.weight", &square),
        ("blk.0.ffn_norm.weight", &[hidden]),
        ("blk.0.ffn_gate.weight", &[hidden, inner]),
        ("blk.0.ffn_up.weight", &[hidden, inner]),
        ("blk.0.ffn_down.weight", &[inner, hidden]),
    ];
    let (mut list, mut offset) = (Vec::new(), 0);
    for (name, axes) in tensors {
        list.extend(tensor(name, axes, Q8_0, offset));
        offset += axes.iter().product::<u64>() / 32 * 34;
        offset = offset.next_multiple_of(32);
    }
    Parts {
        version: 3,
        tensors: tensors.len() as u64,
        entries: metadata.len() as u64,
        metadata: metadata.concat(),
        list,
        data: offset as usize,
    }
}
