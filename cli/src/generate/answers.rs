//! Texts after prompts: printed as they come, or as JSON.

use super::images::Reader;
use super::interrupt::{Interrupt, Interrupted};
use super::{Args, Encoded, load, tell_of_no_end};
use crate::output;
use crate::text::{Tokenizer, Writer};
use kernels_models::{CausalLm, Finish, Generated, Generation, NewToken};
use serde::Serialize;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// A text after a prompt.
#[derive(Debug, Serialize)]
struct Answer {
    text: String,
    ids: Vec<u32>,
    prompt_tokens: usize,
    finish_reason: &'static str,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Answers {
    results: Vec<Answer>,
    new_tokens: usize,
    seconds: f64,
    /// The time until the first token, or `None` without any.
    first_token_seconds: Option<f64>,
    tokens_per_second: f64,
}

/// Continues the prompts and prints the texts. There is a `reader` if a prompt has pictures.
///
/// # Errors
/// Returns an error if the weights can't be read or the device fails; and [`Interrupted`] after Ctrl-C, when the texts so
/// far are printed.
pub fn print(
    args: &Args,
    tokenizer: &Tokenizer,
    prompts: &[Encoded],
    reader: Option<&Reader>,
    settings: &Generation,
) -> anyhow::Result<()> {
    let model = load(args, reader.is_some())?;
    tell_of_no_end(args, tokenizer, settings);
    let interrupt = Interrupt::listen()?;
    let mut run = Run {
        args,
        tokenizer,
        model: &model,
        reader,
        settings: settings.clone(),
        started: Instant::now(),
        first_token: None,
        several: prompts.len() > 1,
    };
    let mut results = Vec::new();
    // One with pictures is continued alone.
    let alike = prompts.chunk_by(|one, next| one.pictures.is_empty() && next.pictures.is_empty());
    for prompts in alike.flat_map(|alike| alike.chunks(args.batch as usize)) {
        results.extend(run.batch(prompts, results.len(), &interrupt)?);
        if interrupt.pressed() {
            break;
        }
    }
    run.finish(results)?;
    match interrupt.pressed() {
        true => Err(Interrupted("the texts end where they were").into()),
        false => Ok(()),
    }
}

/// The state of the command.
struct Run<'a> {
    args: &'a Args,
    tokenizer: &'a Tokenizer,
    model: &'a CausalLm,
    reader: Option<&'a Reader>,
    settings: Generation,
    started: Instant,
    first_token: Option<Duration>,
    several: bool,
}

impl<'a> Run<'a> {
    /// Continues some prompts together and prints their texts. `first` is the number of earlier prompts.
    fn batch(
        &mut self,
        prompts: &[Encoded],
        first: usize,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Vec<Answer>> {
        if let Some(sampling) = &mut self.settings.sampling {
            sampling.first_place = first;
        }
        let (tokenizer, args) = (self.tokenizer, self.args);
        let writer = |_| Writer::new(tokenizer, &args.stop);
        let mut writers: Vec<Writer<'_>> = prompts.iter().map(writer).collect();
        let streams = !self.several && !args.json;
        let (mut failed, mut first_token, started) = (None, self.first_token, self.started);
        let generated = self.generate(prompts, |NewToken { prompt, id }| {
            first_token.get_or_insert_with(|| started.elapsed());
            let writer = &mut writers[prompt];
            let written = writer.push(id).map_err(anyhow::Error::from);
            let written = written.and_then(|piece| match streams {
                true => output::piece(&piece),
                false => Ok(()),
            });
            match written {
                Ok(()) if !writer.stopped() => interrupt.flow(),
                Ok(()) => ControlFlow::Break(()),
                Err(error) => {
                    failed.get_or_insert(error);
                    ControlFlow::Break(())
                }
            }
        });
        self.first_token = first_token;
        if let Some(error) = failed {
            return Err(error);
        }
        let texts = generated?.into_iter().zip(&mut writers).zip(prompts);
        let texts = texts.enumerate();
        texts
            .map(|(at, ((generated, writer), prompt))| {
                let last = writer.finish()?;
                match streams {
                    true => output::piece(&format!("{last}\n"))?,
                    false => self.show(first + at, writer.text())?,
                }
                Ok(answer(generated, writer, prompt.ids.len()))
            })
            .collect()
    }

    /// Continues prompts without pictures, or one with pictures.
    fn generate(
        &self,
        prompts: &[Encoded],
        on_token: impl FnMut(NewToken) -> ControlFlow<()>,
    ) -> anyhow::Result<Vec<Generated>> {
        let Self {
            model, settings, ..
        } = self;
        match (prompts, self.reader) {
            ([one], Some(reader)) if !one.pictures.is_empty() => {
                let device = self.args.device.device()?;
                let (pixel_values, grids) = reader.tensors(&one.pictures, &device)?;
                let text = model.generate_with_pictures(
                    &one.ids,
                    pixel_values,
                    grids,
                    settings,
                    on_token,
                )?;
                Ok(vec![text])
            }
            _ => {
                let ids: Vec<Vec<u32>> = prompts.iter().map(|prompt| prompt.ids.clone()).collect();
                Ok(model.generate(&ids, settings, on_token)?)
            }
        }
    }

    /// Prints the text of one of several prompts.
    fn show(&self, at: usize, text: &str) -> anyhow::Result<()> {
        if self.args.json {
            return Ok(());
        }
        output::note(format_args!("prompt {}:", at + 1));
        output::piece(&format!("{text}\n"))
    }

    /// Prints how it went.
    fn finish(&self, results: Vec<Answer>) -> anyhow::Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        let new_tokens: usize = results.iter().map(|answer| answer.ids.len()).sum();
        let answers = Answers {
            new_tokens,
            seconds,
            first_token_seconds: self.first_token.map(|time| time.as_secs_f64()),
            tokens_per_second: new_tokens as f64 / seconds,
            results,
        };
        if self.args.json {
            return output::json(&answers);
        }
        for (at, answer) in answers.results.iter().enumerate() {
            let which = match self.several {
                true => format!("text {}", at + 1),
                false => "the text".to_owned(),
            };
            if let Some(cut) = cut(answer.finish_reason) {
                output::note(format_args!("{which} ends {cut}"));
            }
        }
        output::note(format_args!(
            "{new_tokens} tokens in {seconds:.1} s ({:.1} tokens/s)",
            answers.tokens_per_second
        ));
        Ok(())
    }
}

fn answer(generated: Generated, writer: &Writer<'_>, prompt_tokens: usize) -> Answer {
    Answer {
        text: writer.text().to_owned(),
        finish_reason: reason(generated.finish, writer),
        ids: generated.ids,
        prompt_tokens,
    }
}

/// Returns the word of `--json` for the end of a text.
fn reason(finish: Finish, writer: &Writer<'_>) -> &'static str {
    match finish {
        _ if writer.stopped() => "stop",
        Finish::End => "end",
        Finish::Length => "length",
        Finish::Positions => "positions",
        _ => "interrupted",
    }
}

/// Returns how a text ends that has no end of its own.
fn cut(reason: &str) -> Option<&'static str> {
    match reason {
        "length" => Some("at --max-new-tokens"),
        "positions" => Some("at the model's last position (max_position_embeddings)"),
        _ => None,
    }
}
