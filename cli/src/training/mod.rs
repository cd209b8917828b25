//! Training, as `kernels train` and `kernels finetune` share it.
//!
//! The modules, in the order in which a run uses them: [`folder`] (the results' files), [`batch`] (what is trained on),
//! [`schedule`] and [`random`] (functions of seed and step), [`plan`], [`fit`] and
//! [`session`] (the loop), [`step`] (losses and gradients), [`preference`] (losses of answers),
//! [`replicas`] (the model on each device), [`ranks`] (the processes of a run, whose gradients `exchange` adds up),
//! [`optimiser`], [`metrics`] (with their files, [`log`] and [`events`]) and [`memory`], [`progress`] and [`plot`], [`state`]
//! (checkpoints to go on from, with their [`tensors`] and [`identity`] and [`saving`]), [`signals`], and [`rescue`] (a
//! place for a model whose folder can't be written).

pub mod batch;
#[cfg_attr(not(feature = "text"), allow(dead_code))] // `train` has no teacher
pub mod distillation;
pub mod events;
#[cfg(feature = "distributed")]
mod exchange;
pub mod fit;
pub mod folder;
pub mod identity;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod optimiser;
pub mod plan;
pub mod plot;
#[cfg_attr(not(feature = "text"), allow(dead_code))] // `train` has no answers
pub mod policy;
#[cfg_attr(not(feature = "text"), allow(dead_code))] // `train` has no answers
pub mod preference;
pub mod progress;
pub mod random;
pub mod ranks;
pub mod replicas;
pub mod rescue;
pub mod saving;
pub mod schedule;
pub mod session;
pub mod signals;
pub mod state;
pub mod step;
mod tensors;
