//! The load-balancing loss as a metric of burn-train.

use burn::tensor::{Tensor, TensorReadError};
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};
use std::sync::Arc;

/// The name of the metric.
pub const LOAD_BALANCING: &str = "Load Balancing";

/// The load-balancing loss of a batch.
pub struct LoadBalancingInput {
    /// The loss `[1]`, or `None` for a model without experts.
    pub loss: Option<Tensor<1>>,
    /// The number of sequences in the batch.
    pub sequences: usize,
}

/// A metric of the load-balancing loss. Over a validation it is the mean over batches, weighted by their sequences. The
/// loss of all tokens together would need all their router logits at once.
#[derive(Clone, Default)]
pub struct LoadBalancingMetric(NumericMetricState);

impl Metric for LoadBalancingMetric {
    type Input = LoadBalancingInput;

    fn name(&self) -> MetricName {
        Arc::new(LOAD_BALANCING.to_owned())
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: None,
            higher_is_better: false,
        }
        .into()
    }

    fn update(
        &mut self,
        input: &LoadBalancingInput,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        if let Some(loss) = &input.loss {
            let loss = loss.clone().try_into_scalar::<f64>()?;
            self.0.update(loss, input.sequences);
        }
        Ok(self.0.compute_update(FormatOptions::new(self.name())))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.0.compute_final(FormatOptions::new(self.name())))
    }

    fn clear(&mut self) {
        self.0.reset();
    }
}

impl Numeric for LoadBalancingMetric {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.0.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.0.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.0.final_value()
    }
}
