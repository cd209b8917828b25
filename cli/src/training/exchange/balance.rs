//! The load-balancing loss of a batch that ranks share: that of the whole batch, as in one process.
//!
//! With the choices `C` and tokens `T` of the whole batch and the probabilities `Pᵣ` of each rank, the loss is the sum over
//! the ranks of `E · Σₑ C/T · Pᵣ/T`. A rank weighs the losses of its share by its targets. The sum of the ranks is right if
//! each multiplies its probabilities by the targets of the whole batch over its own.

use burn::tensor::{Tensor, TensorData};
use burn_kernels::distributed::Group;
use burn_kernels::ops::moe::LoadBalance;
use kernels_models::CausalLm;

/// Returns a model with load-balancing losses of a batch of which this rank has a share with `targets`. If a rank is
/// lost, the next call of the group returns the error.
pub fn balanced(model: CausalLm, group: &Group, targets: usize) -> CausalLm {
    let group = group.clone();
    model.balanced_by(move |share| of_whole(share, &group, targets))
}

/// Takes part in the sums over a batch of which this rank has no share with a target.
///
/// # Errors
/// Returns an error if a rank is lost.
pub fn add_nothing(model: &CausalLm, group: &Group) -> anyhow::Result<()> {
    if let Some(moe) = model.config().moe.as_ref().filter(|_| model.is_sparse()) {
        group.all_reduce(&mut vec![0.0_f64; moe.num_experts + 2])?;
    }
    Ok(())
}

fn of_whole(share: LoadBalance, group: &Group, targets: usize) -> LoadBalance {
    let parts = vec![share.choices.clone(), share.tokens.clone()];
    let mut numbers = match Tensor::cat(parts, 0).try_to_vec_as::<f64>() {
        Ok(numbers) => numbers,
        Err(error) => {
            group.fail(&error.to_string());
            return share;
        }
    };
    numbers.push(targets as f64);
    if group.all_reduce(&mut numbers).is_err() {
        return share;
    }
    let all_targets = numbers.pop().expect("it was added");
    let tokens = numbers.split_off(numbers.len() - 1);
    let like = |numbers: Vec<f64>, known: &Tensor<1>| {
        let shape = [numbers.len()];
        Tensor::from_data(
            TensorData::new(numbers, shape),
            (&known.device(), known.dtype()),
        )
    };
    LoadBalance {
        choices: like(numbers, &share.choices),
        tokens: like(tokens, &share.tokens),
        probabilities: share.probabilities * (all_targets / targets as f64),
    }
}
