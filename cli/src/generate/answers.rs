//! Texts after prompts: printed as they come, or as JSON.

use super::interrupt::{Interrupt, Interrupted};
use super::{Args, load};
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

/// Continues the prompts and prints the texts.
///
/// # Errors
/// Returns an error if the weights can't be read or the device fails; and [`Interrupted`] after Ctrl-C, when the texts so
/// far are printed.
pub fn print(
    args: &Args,
    tokenizer: &Tokenizer,
    prompts: &[Vec<u32>],
    settings: &Generation,
) -> anyhow::Result<()> {
    let model = load(args)?;
    let interrupt = Interrupt::listen()?;
    let mut run = Run {
        args,
        tokenizer,
        model: &model,
        settings: settings.clone(),
        started: Instant::now(),
        first_token: None,
        several: prompts.len() > 1,
    };
    let mut results = Vec::new();
    for prompts in prompts.chunks(args.batch as usize) {
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
    settings: Generation,
    started: Instant,
    first_token: Option<Duration>,
    several: bool,
}

impl<'a> Run<'a> {
    /// Continues some prompts together and prints their texts. `first` is the number of earlier prompts.
    fn batch(
        &mut self,
        prompts: &[Vec<u32>],
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
        let mut failed = None;
        let generated = self
            .model
            .generate(prompts, &self.settings, |NewToken { prompt, id }| {
                self.first_token
                    .get_or_insert_with(|| self.started.elapsed());
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
                Ok(answer(generated, writer, prompt.len()))
            })
            .collect()
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
