//! Compares tokenizers and chat templates with those of transformers, and refuses broken ones.
use kernels_cli::text::{Chat, ChatTemplate, Message, TextError, Tokenizer, Writer};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The embeddings of the fixtures' model.
const EMBEDDINGS: usize = 320;

fn fixture(name: &str) -> PathBuf {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text");
    text.join(name)
}

fn golden() -> Value {
    let text = fs::read_to_string(fixture("golden.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    let ids = list(value).iter();
    ids.map(|id| id.as_u64().unwrap() as u32).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn tiny() -> Tokenizer {
    Tokenizer::open(&fixture("tiny"), EMBEDDINGS).unwrap()
}

fn spm() -> Tokenizer {
    Tokenizer::open(&fixture("spm"), 1000).unwrap()
}

#[test]
fn ids_and_texts_are_those_of_transformers() {
    let golden = golden();
    for (name, tokenizer) in [("tiny", tiny()), ("spm", spm())] {
        let cases = list(&golden["tokenizers"][name]);
        assert!(cases.len() > 9);
        for case in cases {
            let source = text(&case["text"]);
            let all = ids(&case["ids"]);
            assert_eq!(tokenizer.encode(source).unwrap(), all, "{name}: {source}");
            let plain = tokenizer.encode_plain(source).unwrap();
            assert_eq!(plain.ids, ids(&case["plain"]), "{name}: {source}");
            assert_eq!(plain.bytes.len(), plain.ids.len());
            assert_eq!(
                tokenizer.decode(&all).unwrap(),
                text(&case["decoded"]),
                "{name}"
            );
        }
    }
    let [first, ..] = spm().encode("x").unwrap()[..] else {
        panic!("no token");
    };
    assert_eq!(spm().id("<s>"), Some(first), "the file adds it");
    assert_eq!(spm().special("bos_token"), Some("<s>"));
    assert_eq!(spm().special("pad_token"), None);
}

#[test]
fn tokenizers_of_gguf_files_are_those_of_transformers() {
    let golden = golden();
    for (name, folder) in [("tiny", tiny()), ("spm", spm())] {
        let tokenizer = Tokenizer::open(&fixture(&format!("{name}.gguf")), 1000).unwrap();
        for case in list(&golden["tokenizers"][name]) {
            let all = ids(&case["ids"]);
            assert_eq!(
                tokenizer.encode(text(&case["text"])).unwrap(),
                all,
                "{name}"
            );
            assert_eq!(tokenizer.decode(&all).unwrap(), text(&case["decoded"]));
        }
        for special in ["bos_token", "eos_token", "unk_token"] {
            assert_eq!(tokenizer.special(special), folder.special(special));
        }
    }
    let tokenizer = Tokenizer::open(&fixture("tiny.gguf"), EMBEDDINGS).unwrap();
    let chat = Chat::open(&fixture("tiny.gguf"), tokenizer).unwrap();
    let marked =
        |case: &&Value| case["template"] == "marked" && case["add_generation_prompt"] == true;
    let cases: Vec<_> = list(&golden["chats"]).iter().filter(marked).collect();
    assert!(cases.len() > 2);
    for case in cases {
        assert_eq!(chat.prompt(&messages(case)).unwrap(), ids(&case["ids"]));
    }
}

#[test]
fn tokenizers_of_gguf_files_that_are_not_known_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.gguf");
    let said = |from: &[u8], to: &[u8]| {
        let mut bytes = fs::read(fixture("tiny.gguf")).unwrap();
        let at = bytes
            .windows(from.len())
            .position(|part| part == from)
            .unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(&path, bytes).unwrap();
        // A folder with one GGUF file means that file.
        Tokenizer::open(folder.path(), EMBEDDINGS)
            .unwrap_err()
            .to_string()
    };
    for (from, to, words) in [
        (
            &b"qwen2"[..],
            &b"qwen9"[..],
            ["key `tokenizer.ggml.pre`", "`qwen9`"],
        ),
        (b"gpt2", b"gpt9", ["key `tokenizer.ggml.model`", "`gpt9`"]),
        (
            b"ggml.merges",
            b"ggml.nerges",
            ["key `tokenizer.ggml.merges`", "no merges"],
        ),
        (
            b"ggml.pre",
            b"ggml.qre",
            ["key `tokenizer.ggml.pre`", "does not say how"],
        ),
        (
            b"\x01\0\0\0\0\0\0\0!\x01\0\0\0\0\0\0\0\"",
            b"\x01\0\0\0\0\0\0\0!\x01\0\0\0\0\0\0\0!",
            ["key `tokenizer.ggml.tokens`", "the same text"],
        ),
        (
            b"ggml.tokens",
            b"ggml.nokens",
            ["key `tokenizer.ggml.tokens`", "no tokenizer"],
        ),
    ] {
        let said = said(from, to);
        for word in words.into_iter().chain(["model.gguf"]) {
            assert!(said.contains(word), "{said}");
        }
    }
    // Without a limit, the ways to divide a token of megabytes would take hours.
    let mut bytes = fs::read(fixture("spm.gguf")).unwrap();
    let river = b"\x05\0\0\0\0\0\0\0river";
    let at = bytes.windows(river.len()).position(|part| part == river);
    let long = [&600_u64.to_le_bytes()[..], &[b'x'; 600]].concat();
    bytes.splice(at.unwrap()..at.unwrap() + river.len(), long);
    fs::write(&path, bytes).unwrap();
    let said = Tokenizer::open(&path, 1000).unwrap_err().to_string();
    assert!(said.contains("has 600 bytes"), "{said}");

    // The tokenizer beside a file comes first, if the folder is named or the file, and with the template in the file.
    fs::copy(fixture("tiny.gguf"), &path).unwrap();
    fs::copy(
        fixture("spm/tokenizer.json"),
        folder.path().join("tokenizer.json"),
    )
    .unwrap();
    for named in [folder.path(), &path] {
        let beside = Tokenizer::open(named, 1000).unwrap();
        assert_eq!(
            beside.encode("The river").unwrap(),
            spm().encode("The river").unwrap()
        );
        assert_eq!(
            beside.special("eos_token"),
            Some("<|im_end|>"),
            "of the file"
        );
        let rendered = Chat::open(named, beside).unwrap();
        let rendered = rendered
            .template()
            .render(&[Message::user("x")], true)
            .unwrap();
        assert!(rendered.contains("<|im_start|>user"), "{rendered}");
    }
}

/// A GGUF file with a tokenizer and no tensors.
fn gguf(tokens: &[(&str, u32)], entries: &[Vec<u8>]) -> (TempDir, PathBuf) {
    let long = |number: usize| (number as u64).to_le_bytes().to_vec();
    let list = |key: &str, kind: u32, values: Vec<Vec<u8>>| {
        let count = long(values.len());
        let head = [
            gguf_text(key),
            9_u32.to_le_bytes().to_vec(),
            kind.to_le_bytes().to_vec(),
            count,
        ];
        [head.concat(), values.concat()].concat()
    };
    let texts = tokens.iter().map(|(text, _)| gguf_text(text)).collect();
    let types = tokens.iter().map(|(_, kind)| kind.to_le_bytes().to_vec());
    let all = [
        vec![
            list("tokenizer.ggml.tokens", 8, texts),
            list("tokenizer.ggml.token_type", 5, types.collect()),
            list("tokenizer.ggml.merges", 8, vec![gguf_text("H e")]),
            gguf_entry("tokenizer.ggml.model", "gpt2"),
        ],
        entries.to_vec(),
    ]
    .concat();
    let head = [
        b"GGUF".to_vec(),
        3_u32.to_le_bytes().to_vec(),
        long(0),
        long(all.len()),
    ];
    let mut bytes = [head.concat(), all.concat()].concat();
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("model.gguf");
    fs::write(&file, bytes).unwrap();
    (folder, file)
}

fn gguf_text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn gguf_entry(key: &str, value: &str) -> Vec<u8> {
    [
        gguf_text(key),
        8_u32.to_le_bytes().to_vec(),
        gguf_text(value),
    ]
    .concat()
}

fn gguf_id(key: &str, id: u32) -> Vec<u8> {
    [
        gguf_text(key),
        4_u32.to_le_bytes().to_vec(),
        id.to_le_bytes().to_vec(),
    ]
    .concat()
}

#[test]
fn first_and_last_tokens_of_gguf_files_are_those_of_llama_cpp() {
    const NORMAL: u32 = 1;
    const CONTROL: u32 = 3;
    const USER_DEFINED: u32 = 4;
    let tokens = [
        ("H", NORMAL),
        ("e", NORMAL),
        ("He", NORMAL),
        ("<first>", CONTROL),
        ("<last>", USER_DEFINED),
        ("<turn>", CONTROL),
        ("<end_of_turn>", NORMAL),
        ("<tool>", USER_DEFINED),
        // Phi 3 ends its turns with it.
        ("<|end|>", CONTROL),
    ];
    let ids = [
        gguf_id("tokenizer.ggml.bos_token_id", 3),
        gguf_id("tokenizer.ggml.eos_token_id", 4),
        gguf_id("tokenizer.ggml.eot_token_id", 5),
    ];
    // Files of Llama 3 have a first token even if no key says so.
    for (pre, expected) in [("llama-bpe", &[3, 2][..]), ("qwen2", &[2])] {
        let entries = [&ids[..], &[gguf_entry("tokenizer.ggml.pre", pre)]].concat();
        let (_folder, file) = gguf(&tokens, &entries);
        let mut tokenizer = Tokenizer::open(&file, 9).unwrap();
        assert_eq!(tokenizer.encode("He").unwrap(), expected, "{pre}");
        // Of any type, tokens that end a text are one token and never shown.
        let ends = kernels_models::gguf::File::open(&file)
            .unwrap()
            .end_tokens()
            .unwrap();
        assert_eq!(ends, [4, 5, 6, 8], "{pre}");
        let all = tokenizer
            .encode_plain("He<last><end_of_turn><tool>")
            .unwrap()
            .ids;
        assert_eq!(all, [2, 4, 6, 7]);
        assert_eq!(tokenizer.decode(&all).unwrap(), "He<tool>");
        tokenizer.hide(&[7]);
        assert_eq!(tokenizer.decode(&all).unwrap(), "He");
    }
}

fn messages(case: &Value) -> Vec<Message> {
    let messages = list(&case["messages"]).iter();
    let message = |m: &Value| Message::new(text(&m["role"]), text(&m["content"]));
    messages.map(message).collect()
}

/// A folder with the tokenizer of `tiny` and another template.
fn with_template(source: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(fixture("tiny").join(file), folder.path().join(file)).unwrap();
    }
    fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
    folder
}

fn chat(source: &str) -> Result<Chat, TextError> {
    Chat::open(with_template(source).path(), tiny())
}

#[test]
fn conversations_are_rendered_as_by_transformers() {
    let golden = golden();
    let (mut marked, mut refused) = (0, 0);
    for case in list(&golden["chats"]) {
        let chat = chat(text(&golden["templates"][text(&case["template"])])).unwrap();
        let messages = messages(case);
        let asks = case["add_generation_prompt"].as_bool().unwrap();
        let rendered = chat.template().render(&messages, asks);
        if let Some(error) = case.get("error") {
            let said = rendered.unwrap_err().to_string();
            assert!(said.contains(text(error)), "{said}");
            refused += 1;
            continue;
        }
        assert_eq!(rendered.unwrap(), text(&case["text"]), "{case}");
        let expected = ids(&case["ids"]);
        if asks {
            assert_eq!(chat.prompt(&messages).unwrap(), expected);
        } else if let Some(answer) = case.get("answer") {
            let tokens = chat.tokens(&messages).unwrap();
            let written = |at| tokens.answers.iter().any(|range| range.contains(&at));
            let mask: Vec<u32> = (0..tokens.ids.len()).map(|at| written(at).into()).collect();
            assert_eq!(tokens.ids, expected);
            assert_eq!(mask, ids(answer), "{case}");
            marked += mask.iter().sum::<u32>();
        }
    }
    assert!(marked > 20 && refused == 2, "{marked} {refused}");
}

/// The texts of the assistant's turns, by their tokens.
fn answers(chat: &Chat, messages: &[Message]) -> Result<Vec<String>, TextError> {
    let tokens = chat.tokens(messages)?;
    let rendered = chat.template().render(messages, false)?;
    let bytes = chat.tokenizer().encode_plain(&rendered)?.bytes;
    let text = |answer: &std::ops::Range<usize>| {
        let last = bytes[answer.end - 1].end;
        rendered[bytes[answer.start].start..last].to_owned()
    };
    Ok(tokens.answers.iter().map(text).collect())
}

#[test]
fn answers_are_found_in_templates_that_do_not_mark_them() {
    let golden = golden();
    let twice = [
        Message::user("1"),
        Message::assistant("größer 🙂"),
        Message::user("and?"),
        Message::assistant("  the miller "),
    ];
    for (name, expected) in [
        ("marked", ["größer 🙂<|im_end|>", "  the miller <|im_end|>"]),
        ("plain", [" größer 🙂<|im_end|>", " the miller<|im_end|>"]),
        // Only the last answer begins with thoughts.
        (
            "thinking",
            [
                "größer 🙂<|im_end|>",
                "<think>\n\n</think>\n\n  the miller <|im_end|>",
            ],
        ),
    ] {
        let chat = chat(text(&golden["templates"][name])).unwrap();
        assert_eq!(answers(&chat, &twice).unwrap(), expected, "{name}");
    }
    let none = [Message::user("1")];
    let plain = chat(text(&golden["templates"]["plain"])).unwrap();
    assert!(plain.tokens(&none).unwrap().answers.is_empty());

    let elsewhere = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}";
    let said = chat(elsewhere)
        .unwrap()
        .tokens(&twice)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("message 2") && said.contains("{% generation %}"),
        "{said}"
    );
}

/// The learned tokens of each turn of the assistant, as text.
fn learned(source: &str, messages: &[Message]) -> Vec<String> {
    let chat = chat(source).unwrap();
    let tokens = chat.tokens(messages).unwrap();
    let text = |answer: &std::ops::Range<usize>| {
        let ids = &tokens.ids[answer.clone()];
        chat.tokenizer().decode_all(ids).unwrap()
    };
    tokens.answers.iter().map(text).collect()
}

/// The template of ChatML in two parts. The end of each turn goes between them.
const CHATML: [&str; 2] = [
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}",
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
];

#[test]
fn answers_end_with_the_token_behind_them() {
    let messages = [
        Message::user("1"),
        Message::assistant("a"),
        Message::user("2"),
        Message::assistant("b\n"),
    ];
    for (end, expected) in [
        // Not the end of a text, which is another token.
        ("<|endoftext|>\n", ["a<|endoftext|>", "b\n<|endoftext|>"]),
        (
            "<|endoftext|><|im_end|><|endoftext|>",
            ["a<|endoftext|><|im_end|>", "b\n<|endoftext|><|im_end|>"],
        ),
        // The first token of the next turn, also behind the last.
        ("", ["a<|im_start|>", "b\n<|im_start|>"]),
        ("{{ '\\n' }}", ["a\n<|im_start|>", "b\n\n<|im_start|>"]),
        // The end of the last turn is another one, with the same first letters.
        (
            "{% if loop.last %}<|im_end|>{% else %}<|im_start|>!{% endif %}",
            ["a<|im_start|>", "b\n<|im_end|>"],
        ),
    ] {
        let source = CHATML.join(end);
        assert_eq!(learned(&source, &messages), expected, "{end}");
    }
    let none = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    assert_eq!(
        learned(none, &messages),
        ["assistant: a\n", "assistant: b\n\n"]
    );
    let chat = chat(none).unwrap();
    let end = chat.tokens(&messages).unwrap().ids.pop().unwrap();
    assert!(!chat.is_end(end) && chat.is_end(2));
}

#[test]
fn a_first_answer_is_learned_alone() {
    let said = "You are kind. It is so.<|im_end|>\n";
    let source = format!("<|im_start|>system\n{said}{}", CHATML.join("<|im_end|>\n"));
    for content in ["It is so.", "kind", "system", " It is so.\n"] {
        let messages = [Message::assistant(content), Message::user("q")];
        let expected = [format!("{content}<|im_end|>")];
        assert_eq!(learned(&source, &messages), expected);
    }
}

#[test]
fn a_token_across_the_border_of_an_answer_is_learned() {
    let source = "{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }}\n{% else %}ASSISTANT: \
                  {{ m.content }}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT: {% endif %}";
    let turns = [
        Message::user("a"),
        Message::assistant("two"),
        Message::user("b"),
        Message::assistant("d"),
    ];
    let learned = learned(source, &turns);
    let learned: Vec<&str> = learned.iter().map(|text| text.trim_start()).collect();
    assert_eq!(learned, ["two<|im_end|>", "d<|im_end|>"]);
}

#[test]
fn answers_are_found_where_past_turns_are_written_otherwise() {
    // The instruction stands in the last turn of the user.
    let moved = "{% set system = messages[0].content %}{% for m in messages[1:] %}{% if m.role == 'user' %}[Q]\
                 {% if loop.index >= messages | length - 2 %}{{ system }}{% endif %}{{ m.content }}[A]{% else %}\
                  {{ m.content | trim }}<|im_end|>{% endif %}{% endfor %}";
    let turns = [
        Message::system("s"),
        Message::user("[A]"),
        Message::assistant("a [A]"),
        Message::user("2"),
        Message::assistant("b"),
    ];
    assert_eq!(learned(moved, &turns), ["a [A]<|im_end|>", "b<|im_end|>"]);
    // Thoughts are left out of past turns.
    let golden = golden();
    let thinking = text(&golden["templates"]["thinking"]);
    let turns = [
        Message::user("1"),
        Message::assistant("<think>\nhm\n</think>\n\na"),
        Message::user("2"),
        Message::assistant("<think>\nhm\n</think>\n\nb"),
    ];
    assert_eq!(
        learned(thinking, &turns),
        ["a<|im_end|>", "<think>\n\n</think>\n\nb<|im_end|>"]
    );
    // The model is to begin with a thought, which past turns lack.
    let begun = CHATML
        .join("<|im_end|>\n")
        .replace("assistant\n{%", "assistant\n<think>\n{%");
    let turns = [Message::user("1"), Message::assistant("<b>a")];
    assert_eq!(learned(&begun, &turns), ["<b>a<|im_end|>"]);
}

#[test]
fn calls_and_thoughts_are_learned_or_refused() {
    let value = |text: &str| serde_json::from_str::<minijinja::Value>(text).unwrap();
    let call = value(
        r#"[{"type": "function", "function": {"name": "sum", "arguments": {"b": 1, "a": "x"}}}]"#,
    );
    let with = |name, value| Message {
        fields: vec![(name, value)],
        ..Message::assistant("")
    };
    let turns = |call| {
        [
            Message {
                tools: Some(value(r#"[{"name": "sum"}]"#)),
                ..Message::user("1")
            },
            call,
            Message::new("tool", "2"),
            Message::assistant("b"),
        ]
    };
    let calls =
        "{% for c in m.tool_calls %}<call>{{ c.function | tojson }}</call>{% endfor %}<|im_end|>\n";
    let tools = "{% if tools %}{{ tools | tojson }}{% endif %}";
    let source = format!("{tools}{}", CHATML.join(calls));
    let turns_of_call = turns(with("tool_calls", call));
    let expected = [
        r#"<call>{"name": "sum", "arguments": {"b": 1, "a": "x"}}</call><|im_end|>"#,
        "b<|im_end|>",
    ];
    assert_eq!(learned(&source, &turns_of_call), expected);
    // The turn of the answer names the function again.
    let again = "{% if m.role == 'tool' %}{{ messages[1].tool_calls[0].function.name }}{% endif %}{{ m.content }}";
    let again = source.replace("{{ m.content }}", again);
    assert_eq!(learned(&again, &turns_of_call), expected);
    let rendered = chat(&source)
        .unwrap()
        .template()
        .render(&turns_of_call, false);
    assert!(
        rendered
            .unwrap()
            .starts_with(r#"[{"name": "sum"}]<|im_start|>user"#)
    );
    let thoughts =
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}";
    let thinking = format!("{tools}{}", CHATML.join("<|im_end|>\n"))
        .replace("{{ m.content }}", &format!("{thoughts}{{{{ m.content }}}}"));
    let mut thought = with("reasoning_content", value("\"hm\""));
    thought.content = "a".into();
    let turns_of_thought = turns(thought);
    let expected = ["<think>hm</think>a<|im_end|>", "b<|im_end|>"];
    assert_eq!(learned(&thinking, &turns_of_thought), expected);

    // Nothing is dropped.
    for (source, messages, name) in [
        (CHATML.join(calls), &turns_of_call, "`tools`"),
        (thinking, &turns_of_call, "`tool_calls`"),
        (source, &turns_of_thought, "`reasoning_content`"),
    ] {
        let chat = chat(&source).unwrap();
        let said = [
            chat.tokens(messages).map(|_| ()),
            chat.prompt(messages).map(|_| ()),
        ];
        for said in said {
            let said = said.unwrap_err().to_string();
            assert!(said.contains(name) && said.contains("leaves out"), "{said}");
        }
    }
}

/// This takes minutes if each turn renders all turns before it.
#[test]
fn thousands_of_turns_take_no_time() {
    let chat = chat(&CHATML.join("<|im_end|>\n")).unwrap();
    let turn = |at| match at % 2 {
        0 => Message::user("hi"),
        _ => Message::assistant(format!("{at}")),
    };
    let turns: Vec<Message> = (0..4000).map(turn).collect();
    let began = std::time::Instant::now();
    assert_eq!(chat.tokens(&turns).unwrap().answers.len(), 2000);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn long_texts_have_the_tokens_of_the_whole() {
    let line = |n: usize| format!("{n} The river, it's {}  größer 🙂\n\n walking", n * n);
    let text: String = (0..6000).map(line).collect();
    for tokenizer in [tiny(), spm()] {
        assert!(tokenizer.encode_long(&text).unwrap() == tokenizer.encode(&text).unwrap());
        let whole = tokenizer.encode_plain(&text).unwrap();
        assert!(tokenizer.encode_plain_long(&text).unwrap() == whole);
        for text in ["", "The river"] {
            assert_eq!(
                tokenizer.encode_long(text).unwrap(),
                tokenizer.encode(text).unwrap()
            );
        }
    }
    // Tokens of two equal characters begin at odd places, or at even ones where a piece begins with them: pieces of
    // such a run can't be joined, and are encoded again together.
    for (tokenizer, run) in [
        (tiny(), format!("b{}", "l".repeat(300_000))),
        (spm(), format!("ab{}", " ".repeat(300_000))),
    ] {
        for text in [format!("{text}{run}{text}"), run] {
            assert!(tokenizer.encode_long(&text).unwrap() == tokenizer.encode(&text).unwrap());
            let whole = tokenizer.encode_plain(&text).unwrap();
            assert!(tokenizer.encode_plain_long(&text).unwrap() == whole);
        }
    }
    let (first, last) = spm().added().unwrap();
    assert_eq!((first, last.len()), (vec![1], 0));
}

fn render(source: &str) -> Result<String, TextError> {
    let messages = [Message::user(" Grüße\n"), Message::assistant("a\"<b>")];
    chat(source)?.template().render(&messages, true)
}

#[test]
fn templates_have_what_transformers_gives_them() {
    // The second is what Jinja of Python gives, with the settings of transformers.
    for (source, expected) in [
        (
            "{{ bos_token }}{{ messages[0]['content'].strip() }}{{ eos_token }}",
            "<|endoftext|>Grüße<|im_end|>",
        ),
        ("{{ messages[-1].content | tojson }}", "\"a\\\"<b>\""),
        (
            "{{ [1, {'b': none, 'a': [true, 0.5]}] | tojson(indent=2) }}",
            "[\n  1,\n  {\n    \"b\": null,\n    \"a\": [\n      true,\n      0.5\n    ]\n  }\n]",
        ),
        ("{{ [{}, []] | tojson(indent=1) }}", "[\n {},\n []\n]"),
        (
            "{{ unknown_thing | default('xy') }}{{ unknown_thing }}",
            "xy",
        ),
        (
            "{{ 'a b'.split(' ')[-1] ~ 'x'.upper() }}{{ messages[1:] | length }}{{ messages[::-1][0].role }}",
            "bX1assistant",
        ),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
    let year = render("{{ strftime_now('%Y') }}").unwrap();
    assert!(year.parse::<u32>().unwrap() > 2024, "{year}");
}

/// Templates, with what Jinja of Python makes of them.
#[test]
fn templates_render_as_in_python() {
    let fixture: Value =
        serde_json::from_str(&fs::read_to_string(fixture("templates.json")).unwrap()).unwrap();
    let (folder, tokenizer, messages) = (with_template(""), tiny(), messages(&fixture));
    let mut differing = Vec::new();
    for case in list(&fixture["cases"]) {
        let source = format!("{}\n{}", text(&fixture["prelude"]), text(&case[0]));
        fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
        let opened = ChatTemplate::open(folder.path(), &tokenizer).map(Option::unwrap);
        let rendered = opened.and_then(|template| template.render(&messages, true));
        if rendered.as_deref().ok() != case[1].as_str() {
            differing.push(format!("{case}: {rendered:?}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn variables_can_be_set_in_marked_answers() {
    let source = "{% set n = namespace(a=0) %}{% for m in messages %}{% generation %}{% set n.a = n.a + 1 %}{% set b = 1 %}\
                  {{ n.a }}{{ m.content }}{% endgeneration %}{{ b }};{% endfor %}";
    let chat = chat(source).unwrap();
    let messages = [Message::user("x"), Message::assistant("y")];
    assert_eq!(chat.template().render(&messages, false).unwrap(), "1x;2y;");
    assert_eq!(answers(&chat, &messages).unwrap(), ["1x", "2y"]);
}

#[test]
fn the_date_can_be_fixed() {
    let chat = chat("{{ strftime_now('%d %b %Y') }}").unwrap();
    assert!(chat.template().writes_date());
    let chat = chat.dated("2024-07-26".parse().unwrap());
    let rendered = chat.template().render(&[Message::user("x")], true);
    assert_eq!(rendered.unwrap(), "26 Jul 2024");
}

#[test]
fn templates_that_fail_name_the_file_and_the_reason() {
    let endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}{% endfor %}";
    for (source, words) in [
        (
            "{{ raise_exception('Roles must alternate') }}",
            ["Roles must alternate", "chat_template.jinja"],
        ),
        (
            "a\n{% if %}",
            ["chat_template.jinja (line 2)", "unexpected"],
        ),
        ("{{ messages[0].content.shout() }}", ["shout", "line 1"]),
        ("{{ strftime_now('%') }}", ["strftime_now", "%"]),
        ("{{ 'a b' | wordwrap(1) }}", ["filter wordwrap", "unknown"]),
        ("{{ ('x' * 99) | pprint }}", ["`pprint`", "more than 80"]),
        ("{{ '{:>99999999999}'.format(1) }}", ["a width", "line 1"]),
        ("{{ '%4000000000s' % 1 }}", ["a width", "1048576"]),
        ("{{ range }}", ["can't be printed", "line 1"]),
        (
            "{{ 1 | tojson(separators=',') }}",
            ["`tojson`", "`separators`"],
        ),
        (
            "{{ 'a' | tojson(sort=true) }}",
            ["unknown keyword argument", "sort"],
        ),
        (
            "{{ 1 | tojson(indent=1000000000000) }}",
            ["`tojson`", "64 at most"],
        ),
        (endless, ["does not end", "chat_template.jinja"]),
    ] {
        let said = render(source).unwrap_err().to_string();
        for word in words {
            assert!(said.contains(word), "{source}: {said}");
        }
    }
    let chat = chat("x").unwrap();
    let said = chat.prompt(&[]).unwrap_err().to_string();
    assert!(said.contains("at least one message"), "{said}");
    let said = chat
        .prompt(&[Message::user("\u{fdd0}")])
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("message 1") && said.contains("U+FDD0"),
        "{said}"
    );
}

/// The error of the tokenizer or the template in a copy of `tiny` that was changed.
fn spoilt(change: impl FnOnce(&Path)) -> String {
    let folder = with_template("x");
    change(folder.path());
    let opened = Tokenizer::open(folder.path(), EMBEDDINGS);
    let opened = opened.and_then(|tokenizer| Chat::open(folder.path(), tokenizer));
    opened.unwrap_err().to_string()
}

#[test]
fn files_that_do_not_fit_are_named() {
    let config = |value: Value| {
        move |folder: &Path| {
            fs::write(folder.join("tokenizer_config.json"), value.to_string()).unwrap()
        }
    };
    let said = spoilt(|folder| fs::remove_file(folder.join("tokenizer.json")).unwrap());
    assert!(
        said.contains("no tokenizer.json") && said.contains("save_pretrained"),
        "{said}"
    );
    let said = spoilt(|folder| fs::write(folder.join("tokenizer.json"), "{}").unwrap());
    assert!(said.contains("tokenizer.json: not a tokenizer"), "{said}");
    let said = spoilt(|folder| fs::write(folder.join("tokenizer_config.json"), "[1]").unwrap());
    assert!(
        said.contains("tokenizer_config.json: expected a JSON object"),
        "{said}"
    );
    let said = spoilt(config(json!({"eos_token": 3})));
    assert!(said.contains("field `eos_token`"), "{said}");
    let said = spoilt(config(json!({"split_special_tokens": true})));
    assert!(said.contains("field `split_special_tokens`"), "{said}");
    let added = json!({"added_tokens_decoder": {"7": {"content": "<|im_end|>"}}});
    let said = spoilt(config(added));
    assert!(
        said.contains("`<|im_end|>`") && said.contains("different tokenizers"),
        "{said}"
    );
    let said = spoilt(|folder| {
        fs::remove_file(folder.join("chat_template.jinja")).unwrap();
        config(json!({}))(folder);
    });
    assert!(said.contains("no chat template"), "{said}");
}

#[test]
fn tokens_that_the_model_lacks_are_named_where_a_text_holds_them() {
    let all = tiny();
    let last = (EMBEDDINGS - 1) as u32;
    let token = all.decode(&[last]).unwrap();
    let one_less = Tokenizer::open(&fixture("tiny"), EMBEDDINGS - 1).unwrap();
    assert_eq!(one_less.beyond_model().map(|(_, id)| id), Some(last));
    assert_eq!(all.beyond_model(), None);
    assert_eq!(one_less.encode("x").unwrap(), all.encode("x").unwrap());
    for said in [
        one_less.encode(&token).unwrap_err(),
        one_less.encode_plain(&token).unwrap_err(),
    ] {
        let said = said.to_string();
        for words in ["the token `", "id 319", "319 embeddings (vocab_size)"] {
            assert!(said.contains(words), "{said}");
        }
    }
    let name = all.special("eos_token").unwrap();
    let small = Tokenizer::open(&fixture("tiny"), 1).unwrap();
    assert_eq!((small.id(name), all.id(name).is_some()), (None, true));
}

#[test]
fn tokens_of_the_config_alone_are_tokens_and_are_not_shown() {
    let folder = with_template("x");
    let edit = |file: &str, change: &dyn Fn(&mut Value)| {
        let path = folder.path().join(file);
        let mut value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    };
    let last = EMBEDDINGS as u32;
    edit("tokenizer_config.json", &|config| {
        let added = |content: &str, special: bool| json!({"content": content, "special": special});
        let decoder = json!({last.to_string(): added("<a>", true), (last + 1).to_string(): added("<b>", false)});
        config["added_tokens_decoder"] = decoder;
    });
    // An end token that the file doesn't call special.
    edit("tokenizer.json", &|json| {
        for token in json["added_tokens"].as_array_mut().unwrap() {
            token["special"] = json!(false);
        }
    });
    let tokenizer = Tokenizer::open(folder.path(), EMBEDDINGS + 2).unwrap();
    let end = tokenizer.id("<|im_end|>").unwrap();
    let ids = tokenizer.encode("<a><b><|im_end|>").unwrap();
    assert_eq!(ids, [last, last + 1, end]);
    assert_eq!(tokenizer.decode(&ids).unwrap(), "<b>");
}

#[test]
fn tokenizers_made_to_harm_are_refused() {
    let folder = with_template("x");
    let path = folder.path().join("tokenizer.json");
    let usual: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let opened = |part: &str, value: Value| {
        let mut json = usual.clone();
        json[part] = value;
        fs::write(&path, json.to_string()).unwrap();
        Tokenizer::open(folder.path(), EMBEDDINGS)
    };
    let doubles = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let empty = json!({"type": "Replace", "pattern": {"Regex": "a?"}, "content": "a".repeat(36)});
    let added = json!({
        "type": "TemplateProcessing", "single": vec![json!({"SpecialToken": {"id": "x", "type_id": 0}}); 100], "pair": [],
        "special_tokens": {"x": {"id": "x", "ids": vec![1; 100], "tokens": vec!["x"; 100]}},
    });
    for (part, value, words) in [
        (
            "normalizer",
            json!({"type": "Sequence", "normalizers": vec![doubles; 40]}),
            "`normalizer`, step 34",
        ),
        (
            "decoder",
            json!({"type": "Sequence", "decoders": vec![empty; 12]}),
            "`decoder`, step",
        ),
        (
            "normalizer",
            json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAAAAAAAAAAAAAAAA"}),
            "is damaged",
        ),
        ("post_processor", added, "`post_processor`: it adds"),
        (
            "post_processor",
            json!({
                "type": "TemplateProcessing", "pair": [], "special_tokens": {},
                "single": vec![json!({"Sequence": {"id": "A", "type_id": 0}}); 20],
            }),
            "`post_processor`: it repeats",
        ),
    ] {
        let said = opened(part, value).unwrap_err().to_string();
        assert!(
            said.contains("tokenizer.json: field ") && said.contains(words),
            "{said}"
        );
    }
    let long = json!([["a", -1.0], ["a".repeat(300), -1.0]]);
    let said = opened(
        "model",
        json!({"type": "Unigram", "unk_id": 0, "vocab": long}),
    );
    let said = said.unwrap_err().to_string();
    assert!(said.contains("has 300 bytes, more than 256"), "{said}");
    // A table that leads out of itself is found when it is used.
    let table = "BAAAAAAE/wBhAA==";
    let tokenizer = opened(
        "normalizer",
        json!({"type": "Precompiled", "precompiled_charsmap": table}),
    );
    let said = tokenizer
        .and_then(|tokenizer| tokenizer.encode("x"))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("tokenizer.json: this tokenizer can't be used: "),
        "{said}"
    );
}

/// As `AutoTokenizer` of transformers 5.22 does it.
#[test]
fn a_space_before_a_text_is_that_of_transformers() {
    let folder = with_template("x");
    let file = folder.path().join("tokenizer.json");
    let tokenizer = fs::read_to_string(&file).unwrap();
    let (spaced, not) = ("\"add_prefix_space\":true", "\"add_prefix_space\":false");
    assert!(tokenizer.contains(not));
    let begins_with_space = |own: bool, class: Option<&str>, model: &str, config: Option<bool>| {
        let text = match own {
            true => tokenizer.replace(not, spaced),
            false => tokenizer.clone(),
        };
        fs::write(&file, text).unwrap();
        let fields = json!({"tokenizer_class": class, "add_prefix_space": config});
        let path = folder.path().join("tokenizer_config.json");
        fs::write(path, fields.to_string()).unwrap();
        let path = folder.path().join("config.json");
        fs::write(path, json!({"model_type": model}).to_string()).unwrap();
        let tokenizer = Tokenizer::open(folder.path(), EMBEDDINGS).unwrap();
        let ids = tokenizer.encode("the").unwrap();
        tokenizer.decode(&ids).unwrap() == " the"
    };
    for (class, model) in [
        (Some("GPT2TokenizerFast"), "llama"),
        (Some("Qwen2Tokenizer"), "llama"),
        (Some("PreTrainedTokenizerFast"), "qwen2"),
        (None, "qwen3"),
    ] {
        for own in [false, true] {
            for (config, expected) in [(None, false), (Some(false), false), (Some(true), true)] {
                let adds = begins_with_space(own, class, model, config);
                assert_eq!(adds, expected, "{class:?} {model} {own} {config:?}");
            }
        }
    }
    for (class, model) in [
        (Some("PreTrainedTokenizerFast"), "llama"),
        (Some("LlamaTokenizer"), "qwen2"),
        (None, "llama"),
    ] {
        for own in [false, true] {
            for config in [None, Some(false), Some(true)] {
                let adds = begins_with_space(own, class, model, config);
                assert_eq!(adds, own, "{class:?} {model} {own} {config:?}");
            }
        }
    }
}

#[test]
fn older_places_of_templates_and_tokens_are_read() {
    let folder = with_template("x");
    fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    let config = json!({"chat_template": [{"name": "rag", "template": "a"}, {"name": "default", "template": "b{{ eos_token }}"}]});
    fs::write(
        folder.path().join("tokenizer_config.json"),
        config.to_string(),
    )
    .unwrap();
    let map = json!({"eos_token": {"content": "<|im_end|>", "lstrip": false}});
    fs::write(
        folder.path().join("special_tokens_map.json"),
        map.to_string(),
    )
    .unwrap();
    let render = || {
        let tokenizer = Tokenizer::open(folder.path(), EMBEDDINGS).unwrap();
        let template = ChatTemplate::open(folder.path(), &tokenizer)
            .unwrap()
            .unwrap();
        template.render(&[Message::user("x")], false).unwrap()
    };
    assert_eq!(render(), "b<|im_end|>");
    let other = json!({"chat_template": "c"});
    fs::write(folder.path().join("chat_template.json"), other.to_string()).unwrap();
    assert_eq!(render(), "c");
}

/// The pieces of a text whose ids come one by one.
fn pieces(tokenizer: &Tokenizer, ids: &[u32], stops: &[&str]) -> (Vec<String>, bool) {
    let stops: Vec<String> = stops.iter().map(|&stop| stop.to_owned()).collect();
    let mut writer = Writer::new(tokenizer, &stops);
    let mut pieces: Vec<String> = ids.iter().map(|&id| writer.push(id).unwrap()).collect();
    pieces.push(writer.finish().unwrap());
    assert_eq!(pieces.concat(), writer.text());
    (pieces, writer.stopped())
}

#[test]
fn pieces_are_whole_characters_and_give_the_text() {
    let golden = golden();
    for (name, tokenizer) in [("tiny", tiny()), ("spm", spm())] {
        for case in list(&golden["tokenizers"][name]) {
            let ids = ids(&case["ids"]);
            let (pieces, stopped) = pieces(&tokenizer, &ids, &[]);
            assert_eq!(pieces.concat(), text(&case["decoded"]), "{name}: {case}");
            assert!(
                !stopped && pieces.iter().all(|piece| !piece.contains('\u{fffd}')),
                "{pieces:?}"
            );
        }
    }
    // Random ids are often invalid UTF-8.
    let tokenizer = tiny();
    for case in list(&golden["greedy"]) {
        let ids = ids(&case["ids"]);
        let (pieces, _) = pieces(&tokenizer, &ids, &[]);
        assert_eq!(pieces.concat(), text(&case["text"]));
        assert!(pieces.iter().filter(|piece| !piece.is_empty()).count() > 3);
    }
    // The three bytes of a character come one by one, and the fourth of another never comes.
    let ids = tokenizer.encode("a日🙂").unwrap();
    let (pieces, _) = pieces(&tokenizer, &ids[..ids.len() - 1], &[]);
    assert_eq!(pieces, ["a", "", "", "日", "", "", "", "\u{fffd}"]);
}

#[test]
fn texts_end_exactly_at_a_stop_string() {
    let tokenizer = tiny();
    let ids = tokenizer
        .encode("The river has no name. Thank you.")
        .unwrap();
    for (stops, text, stopped) in [
        (&["no name"][..], "The river has ", true),
        (&["you!", "e. T"], "The river has no nam", true),
        (&["T"], "", true),
        (&[" you. And"], "The river has no name. Thank you.", false),
        (&["name", "no name."], "The river has no ", true),
        (&["name.", "no name."], "The river has ", true),
        (&["er h"], "The riv", true),
    ] {
        let (pieces, found) = pieces(&tokenizer, &ids, stops);
        assert_eq!(
            (pieces.concat().as_str(), found),
            (text, stopped),
            "{stops:?}"
        );
    }
    // A text that can be the beginning of a stop string is held back until this is certain.
    let (pieces, _) = pieces(&tokenizer, &tokenizer.encode("11121").unwrap(), &["113"]);
    assert_eq!(pieces, ["", "", "1", "112", "", "1"]);
}
