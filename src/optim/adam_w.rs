use super::settings::{self, Settings};
use burn::optim::{AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use kernels_runtime::__private::{At, adam_w, declare_site, declined};
use kernels_runtime::ops::adam_w::{Settings as Step, State};

declare_site! {
    static SITE = {
        kernel: "npu_fused_adam_w",
        item: "FusedAdamW::step",
        form: Form::Method,
        key: SemanticsKey::AdamW(AdamWKey),
        key_json: r#"{"op":"adam_w"}"#,
        layer: None,
    }
}

/// Burn's AdamW (Loshchilov & Hutter, arXiv:1711.05101) with a fused step.
///
/// AMSGrad and cautious weight decay have no kernel. With either, every step is Burn's own, and the report gives the
/// site's condition as the reason.
///
/// On half types, the kernel computes in f32 and rounds the parameter and the moments once. Burn's own step rounds
/// after each of its operations.
#[derive(Clone)]
pub struct FusedAdamW {
    settings: Settings,
    burn: AdamW,
}

impl std::fmt::Debug for FusedAdamW {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FusedAdamW").field(&self.settings).finish()
    }
}

impl FusedAdamW {
    /// Creates the optimiser with these settings, but without clipping of gradients:
    /// [`init_fused`](super::InitFused::init_fused) adds it.
    ///
    /// # Panics
    /// Panics if this release of Burn has AdamW settings that this crate does not know.
    pub fn new(config: &AdamWConfig) -> Self {
        Self {
            settings: settings::read(config),
            burn: config.build(),
        }
    }

    /// Returns the settings of step `step`, with Burn's values.
    fn numbers(&self, lr: LearningRate, step: usize) -> Step {
        Step {
            learning_rate: lr,
            beta_1: self.settings.beta_1.into(),
            beta_2: self.settings.beta_2.into(),
            epsilon: self.settings.epsilon.into(),
            weight_decay: self.settings.weight_decay.into(),
            step,
        }
    }
}

/// Returns the state after step `time`.
fn of<const D: usize>([moment_1, moment_2]: [Tensor<D>; 2], time: usize) -> AdamWState<D> {
    AdamWState::new(AdaptiveMomentumState::new(time, moment_1, moment_2))
}

impl Optimizer for FusedAdamW {
    type State<const D: usize> = AdamWState<D>;

    #[track_caller]
    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        if self.settings.amsgrad || self.settings.cautious_weight_decay {
            let tensor = declined(At::when(&SITE, false), tensor);
            return self.burn.step(lr, tensor, grad, state);
        }
        let before = state.as_ref().map_or(0, |state| state.momentum.time);
        let moments = state.map(|state| [state.momentum.moment_1, state.momentum.moment_2]);
        let reference = |tensor, grad, moments: Option<[Tensor<D>; 2]>| {
            let state = moments.map(|moments| of(moments, before));
            let (parameter, state) = self.burn.step(lr, tensor, grad, state);
            let momentum = state.expect("AdamW has a state").momentum;
            State {
                parameter,
                moment_1: momentum.moment_1,
                moment_2: momentum.moment_2,
            }
        };
        let after = adam_w(
            At::new(&SITE),
            tensor,
            grad,
            moments,
            self.numbers(lr, before + 1),
            reference,
        );
        let state = of([after.moment_1, after.moment_2], before + 1);
        (after.parameter, Some(state))
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        AdamW::to_device(state, device)
    }
}
