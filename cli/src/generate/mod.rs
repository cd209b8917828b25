//! `kernels generate`: continues prompts, and answers messages.

mod answers;
mod chat;
#[cfg(feature = "images")]
mod images;
#[cfg(not(feature = "images"))]
#[path = "no_images.rs"]
mod images;
mod interrupt;
mod lines;
mod prompts;
mod settings;

use crate::choice::{self, DeviceChoice, DtypeChoice};
use crate::loading;
use crate::output;
use crate::text::{Chat, Message, Tokenizer};
use anyhow::{Context, anyhow, bail};
use clap::builder::NonEmptyStringValueParser;
pub use interrupt::Interrupted;
use kernels_io::is_there;
use kernels_models::{AdapterConfig, CausalLm, Generation, ModelConfig, load_as, load_with_vision};
use prompts::{Content, Prompt};
use std::path::{Path, PathBuf};

/// Continue prompts, or answer messages, with a checkpoint
///
/// The folder holds the checkpoint and its tokenizer.json. A prompt is taken as it is; with --chat it is a message,
/// which the checkpoint's own chat template renders. --chat alone reads messages from standard input, one in each line,
/// and answers each with the conversation so far in view. There, `/reset` begins a new conversation, `/exit` or the end
/// of the input ends the program, and Ctrl-C ends an answer. In a terminal, arrows edit a message and recall earlier ones,
/// and a paste is one message.
///
/// The settings are those of the checkpoint's generation_config.json, as in transformers, and options replace them.
/// Without `do_sample` there, the most probable token is taken each time; --temperature, --top-k, --top-p, --min-p and
/// --seed turn to sampling. A text ends with an end token of the checkpoint, before a stop string, after
/// --max-new-tokens, or at the model's last position.
///
/// Texts go to standard output, one prompt's as it is generated, and everything else to standard error. Control
/// characters other than line ends and tabs are escaped, except in --json.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("input").required(true).multiple(true).args(["prompt", "prompts", "chat"])))]
pub struct Args {
    /// The folder of the checkpoint (config.json, safetensors files and tokenizer.json), or a GGUF file.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// The folder of an adapter of this model in PEFT's layout, such as adapter/ of a run of `kernels finetune`.
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// A prompt, or, with --chat, a message. Can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Vec<String>,
    /// A file with a prompt in each line that is not empty; or, with the extension .jsonl, a JSON object in each line,
    /// with `prompt`, or, with --chat, `messages`, a list of objects with `role` and `content`. `-` is standard input, with
    /// either, as its first line shows.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// A picture (PNG or JPEG) of the only prompt, for a model with a vision tower. Can be given several times. With
    /// --chat, the pictures stand before the message. Without, the prompt has a placeholder for each, as the model's
    /// template writes it. Needs a build with the feature `images`.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Take prompts as messages of a conversation; without prompts, converse.
    #[arg(long)]
    chat: bool,
    /// The system message of each conversation.
    #[arg(
        long,
        value_name = "TEXT",
        requires = "chat",
        allow_hyphen_values = true
    )]
    system: Option<String>,
    #[command(flatten)]
    settings: settings::Choice,
    /// End a text before this string. Can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// The number of prompts that are continued together.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Print texts, token ids, the reasons why texts end, and the speed, as JSON.
    #[arg(long)]
    json: bool,
    /// The dtype to compute in; the parameters are converted to it.
    #[arg(long, value_enum, default_value_t = DtypeChoice::F32)]
    dtype: DtypeChoice,
    #[command(flatten)]
    quantised: loading::QuantisedArgs,
    #[command(flatten)]
    policy: choice::PolicyArgs,
    /// The device to run on.
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
}

/// The tokenizer, with the chat template if prompts are messages.
enum Text {
    Plain(Tokenizer),
    Chat(Chat),
}

impl Text {
    fn tokenizer(&self) -> &Tokenizer {
        match self {
            Self::Plain(tokenizer) => tokenizer,
            Self::Chat(chat) => chat.tokenizer(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the checkpoint, its tokenizer, the prompts or a setting is invalid, all but the weights before
/// these are read; and [`Interrupted`] after Ctrl-C.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.policy.install_preferring(args.quantised.preferred())?;
    let config = ModelConfig::of_checkpoint(&args.model)?;
    if let Some(folder) = &args.adapter {
        AdapterConfig::of_folder(folder, &config)?;
    }
    let settings = args
        .settings
        .generation(holder(args, "generation_config.json"), &config)?;
    let folder = holder(args, "tokenizer.json");
    let mut tokenizer = Tokenizer::open(folder, config.vocab_size)?;
    tokenizer.hide(&settings.end_tokens);
    let text = match args.chat {
        true => Text::Chat(Chat::open(folder, tokenizer)?),
        false => Text::Plain(tokenizer),
    };
    let prompts = prompts::read(args)?;
    match (text, prompts) {
        (Text::Chat(_), None) if args.json => {
            bail!("--json needs --prompt or --prompts; a conversation has no end to print it at")
        }
        (Text::Chat(chat), None) => chat::converse(args, &chat, &settings),
        (text, prompts) => {
            let prompts = prompts.unwrap_or_default();
            let sees = prompts.iter().any(|prompt| !prompt.pictures.is_empty());
            let reader = match sees {
                true => Some(images::Reader::open(&args.model, &config)?),
                false => None,
            };
            let encoded = encoded(&text, prompts, &config, reader.as_ref())?;
            answers::print(args, text.tokenizer(), &encoded, reader.as_ref(), &settings)
        }
    }
}

/// Tells that texts end at the limit of their tokens alone, if nothing else ends them. Callers load the weights first, so
/// that this note never stands before the error of a broken file.
fn tell_of_no_end(args: &Args, tokenizer: &Tokenizer, settings: &Generation) {
    if !settings.end_tokens.is_empty() || !args.stop.is_empty() {
        return;
    }
    let of_tokenizer = tokenizer
        .special("eos_token")
        .and_then(|token| Some((token, tokenizer.id(token)?)));
    let hint = of_tokenizer.map_or_else(String::new, |(token, id)| {
        format!(
            "; its tokenizer ends texts with `{}`: with `\"eos_token_id\": {id}` in generation_config.json, they end \
             there",
            kernels_io::escape(token)
        )
    });
    output::note(format_args!(
        "the checkpoint names no end token, so texts end after --max-new-tokens, or before a --stop string{hint}"
    ));
}

/// Returns the folder whose file counts: the adapter's, if it has one, or the model's.
fn holder<'a>(args: &'a Args, file: &str) -> &'a Path {
    let adapter = args.adapter.as_deref();
    adapter
        .filter(|folder| is_there(&folder.join(file)))
        .unwrap_or(&args.model)
}

/// A prompt as the model takes it.
struct Encoded {
    /// The token ids, some of which stand for parts of pictures.
    ids: Vec<u32>,
    pictures: Vec<images::Source>,
}

/// Returns the token ids of every prompt, each of which the model can take. There is a `reader` if a prompt has
/// pictures.
fn encoded(
    text: &Text,
    prompts: Vec<Prompt>,
    config: &ModelConfig,
    reader: Option<&images::Reader>,
) -> anyhow::Result<Vec<Encoded>> {
    let one = |(at, prompt): (usize, Prompt)| -> anyhow::Result<Encoded> {
        let ids = ids(text, &prompt, reader);
        let ids = ids.and_then(|ids| fitting(ids, config.max_position_embeddings));
        let ids = ids.with_context(|| format!("prompt {}", at + 1))?;
        Ok(Encoded {
            ids,
            pictures: prompt.pictures,
        })
    };
    prompts.into_iter().enumerate().map(one).collect()
}

fn ids(text: &Text, prompt: &Prompt, reader: Option<&images::Reader>) -> anyhow::Result<Vec<u32>> {
    let ids = match (text, &prompt.content) {
        (Text::Chat(chat), Content::Messages(messages)) => chat.prompt(messages)?,
        (text, Content::Text(prompt)) => text.tokenizer().encode(prompt)?,
        (Text::Plain(_), Content::Messages(_)) => bail!("messages need --chat"),
    };
    let Some(reader) = reader.filter(|_| !prompt.pictures.is_empty()) else {
        return Ok(ids);
    };
    let expanded = reader.expand(&ids, &reader.grids(&prompt.pictures)?);
    match text {
        Text::Chat(_) => expanded,
        Text::Plain(_) => {
            expanded.map_err(|error| anyhow!("{error}; with --chat, the template writes it"))
        }
    }
}

fn fitting(ids: Vec<u32>, limit: usize) -> anyhow::Result<Vec<u32>> {
    match ids.len() {
        0 => bail!("it is empty, and the tokenizer adds no first token"),
        length if length > limit => bail!(
            "its {length} tokens are more than the model's positions, {limit} (max_position_embeddings)"
        ),
        _ => Ok(ids),
    }
}

/// Loads the weights, with those of the adapter added, and with a vision tower if the model sees.
fn load(args: &Args, sees: bool) -> anyhow::Result<CausalLm> {
    let device = args.device.device()?;
    // An adapter is added to floats.
    let quantised = args.quantised.form(args.adapter.is_some());
    let dtype = args.dtype.float_dtype();
    let load = if sees { load_with_vision } else { load_as };
    let (_, model) =
        loading::shown(|progress| load(&args.model, &device, dtype, quantised, progress))?;
    args.quantised.check(&model, &device)?;
    match &args.adapter {
        Some(folder) => Ok(model.merge_adapters(folder)?),
        None => Ok(model),
    }
}

/// Returns the start of a conversation.
fn opening(args: &Args) -> Vec<Message> {
    args.system.iter().map(Message::system).collect()
}
