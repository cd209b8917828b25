//! A conversation: messages from standard input, answers to standard output.

use super::interrupt::Interrupt;
use super::lines::{Lines, Next};
use super::{Args, load, opening, tell_of_no_end};
use crate::output;
use crate::text::{Chat, Message, TextError, Writer};
use kernels_models::{Finish, Generation, Session};
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

/// Converses until `/exit` or the end of the input.
///
/// # Errors
/// Returns an error if the weights can't be read, if the chat template refuses the conversation, if the input can't be
/// read, or if the device fails.
pub fn converse(args: &Args, chat: &Chat, settings: &Generation) -> anyhow::Result<()> {
    let model = load(args, false)?;
    tell_of_no_end(args, chat.tokenizer(), settings);
    let interrupt = Interrupt::listen()?;
    let mut talk = Talk {
        chat,
        settings,
        stops: &args.stop,
        opening: opening(args),
        messages: opening(args),
        session: Session::new(&model),
        positions: model.config().max_position_embeddings,
        interrupt: &interrupt,
    };
    if io::stdin().is_terminal() {
        output::note(
            "`/reset` begins a new conversation, `/exit` ends the program, Ctrl-C ends an answer",
        );
    }
    let mut lines = Lines::open(&interrupt)?;
    loop {
        let text = match lines.read()? {
            Next::Text(text) => text,
            Next::End => return Ok(()),
            Next::Unusable(reason) => {
                output::note(format_args!("the message is left out: {reason}"));
                continue;
            }
        };
        match text.as_str() {
            "" => {}
            "/exit" => return Ok(()),
            "/reset" => talk.reset(),
            // A pasted text can begin with a path.
            command if command.starts_with('/') && !command.contains('\n') => {
                output::note(format_args!(
                    "unknown command `{command}`; commands are /reset and /exit"
                ));
            }
            message => talk.answer(message)?,
        }
    }
}

/// A conversation, with its session and settings.
struct Talk<'a> {
    chat: &'a Chat,
    settings: &'a Generation,
    stops: &'a [String],
    opening: Vec<Message>,
    messages: Vec<Message>,
    session: Session<'a>,
    positions: usize,
    interrupt: &'a Interrupt,
}

impl Talk<'_> {
    fn reset(&mut self) {
        // The session keeps the system message, with which the next prompt begins.
        self.messages.clone_from(&self.opening);
        output::note("a new conversation");
    }

    /// Answers a message.
    fn answer(&mut self, message: &str) -> anyhow::Result<()> {
        self.messages.push(Message::user(message));
        let prompt = match self.chat.prompt(&self.messages) {
            Err(TextError::Interrupted) => {
                self.interrupt.take();
                self.messages.pop();
                output::note(
                    "Ctrl-C ended the chat template; the conversation goes on without the message",
                );
                return Ok(());
            }
            prompt => prompt?,
        };
        if prompt.len() > self.positions {
            self.messages.pop();
            output::note(format_args!(
                "with this message the conversation has {} tokens, more than the model's positions, {}; shorten the \
                 message, or begin a new conversation with /reset",
                prompt.len(),
                self.positions
            ));
            return Ok(());
        }
        let mut writer = Writer::new(self.chat.tokenizer(), self.stops);
        let finish = self.write(&prompt, &mut writer)?;
        if let Some(remark) = self.remark(finish, writer.stopped()) {
            output::note(remark);
        }
        self.messages.push(Message::assistant(writer.text()));
        Ok(())
    }

    /// Generates an answer and prints it as it comes.
    fn write(&mut self, prompt: &[u32], writer: &mut Writer<'_>) -> anyhow::Result<Finish> {
        let mut failed = None;
        let generated = self.session.generate(prompt, self.settings, |token| {
            let piece = writer.push(token.id).map_err(anyhow::Error::from);
            match piece.and_then(|piece| output::piece(&piece)) {
                Ok(()) if !writer.stopped() => self.interrupt.flow(),
                Ok(()) => ControlFlow::Break(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        output::piece(&format!("{}\n", writer.finish()?))?;
        Ok(generated?.finish)
    }

    /// Returns how an answer ended, if it was cut off.
    fn remark(&self, finish: Finish, stopped: bool) -> Option<&'static str> {
        let interrupted = self.interrupt.take();
        match finish {
            Finish::Stopped if interrupted && !stopped => {
                Some("Ctrl-C ended the answer; the conversation keeps it as it is")
            }
            Finish::Length => Some("the answer ends at --max-new-tokens"),
            Finish::Positions => Some(
                "the answer ends at the model's last position; /reset begins a new conversation",
            ),
            _ => None,
        }
    }
}
