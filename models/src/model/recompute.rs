//! Gradients with the activations of one layer at a time (activation checkpointing; Chen et al., *Training Deep Nets with
//! Sublinear Memory Cost*, arXiv:1604.06174).
//!
//! The forward pass keeps the inputs of layers only. The backward pass goes from the last layer to the first: it computes a
//! layer again, with everything its gradients need, and drops that before the next one.

use burn::module::Module;
use burn::tensor::{Gradients, Int, Tensor};

use crate::config::ModelConfig;
use crate::layers::arrangements::DecoderLayer;
use crate::layers::layer::Residual;
use crate::model::causal_lm::CausalLm;
use crate::model::causal_lm::Losses;
use crate::model::decoder::{Decoder, inserted};
use crate::model::pictures::SeenPictures;
use crate::model::places::Places;
use crate::model::sequences::{Counted, Packed, Sequences};

const UNUSED: &str = "a layer uses the residual stream that it takes";

impl ModelConfig {
    /// Returns why layers of the model can't be computed again one by one, or `None` if they can.
    pub fn recomputes_no_layers(&self) -> Option<&'static str> {
        self.family().altup.then_some(
            "layers of this model share keys and parallel residual streams, so they can't be computed one by one",
        )
    }
}

impl CausalLm {
    /// Returns the losses of [`sequence_losses`](Self::sequence_losses), and passes the gradients of `weight` times the total
    /// loss to `take`. It keeps the activations of one layer in memory, and the inputs of the others, and computes each
    /// layer twice.
    ///
    /// `take` gets gradients of parts of the model, one after the other. A parameter can be in several, such as the table of
    /// embeddings that is the output projection too: add them up, as Burn's `GradientsAccumulator` does. The losses carry no
    /// gradient.
    ///
    /// The features of [pictures](Sequences::pictures) get no gradient.
    ///
    /// The device's random numbers are seeded before each layer, from `seed`, so that both passes of a layer drop the
    /// same numbers.
    ///
    /// # Panics
    /// Panics as `sequence_losses` does, and if [`ModelConfig::recomputes_no_layers`] has a reason.
    pub fn recomputed_losses(
        &self,
        sequences: Sequences,
        weight_and_seed: (f64, u64),
        take: impl FnMut(Gradients),
    ) -> Losses {
        self.recomputed(sequences, Self::losses_of_hidden, weight_and_seed, take)
    }

    /// Returns losses of the last hidden states `[b, s, hidden]`, and passes their gradients on as
    /// [`recomputed_losses`](Self::recomputed_losses) does.
    pub(crate) fn recomputed(
        &self,
        sequences: Sequences,
        losses: impl FnOnce(&Self, (Tensor<3>, Vec<Tensor<2>>), Counted) -> Losses,
        (weight, seed): (f64, u64),
        mut take: impl FnMut(Gradients),
    ) -> Losses {
        let reason = self.config().recomputes_no_layers();
        let layers = self.model.layers_one_by_one();
        let layers = layers.unwrap_or_else(|| panic!("{}", reason.unwrap_or_default()));
        let (packed, counted) = sequences.parts(self.config());
        let Packed {
            batch,
            documents,
            seen,
        } = packed;
        let seen = seen.map(SeenPictures::constant);
        let seen = seen.as_ref();
        let input_ids = batch.input_ids.clone();
        let constant = self.clone().no_grad();
        let hidden = inserted(seen, constant.model.embed(input_ids.clone()));
        let places = self.model.places_of(&hidden, &batch, documents);
        let (inputs, last, routers) = {
            let layers = constant.model.layers_one_by_one();
            let layers = layers.expect("checked above");
            let passed = Layers::new(self.config(), layers, (&places, seen), seed);
            passed.forward(Residual::new(hidden))
        };

        let last = last.leaf();
        let routers: Vec<_> = routers.into_iter().map(|r| r.map(leaf)).collect();
        let hidden = self.model.normalise(last.clone());
        let logits = routers.iter().flatten().cloned().collect();
        let losses = losses(self, (hidden, logits), counted);
        let mut gradients = (losses.total.clone() * weight).backward();
        let flow = Flow {
            residual: last.gradient(&mut gradients),
            routers: routers
                .iter()
                .map(|router| router.as_ref()?.grad_remove(&mut gradients))
                .collect(),
        };
        take(gradients);

        let layers = Layers::new(self.config(), layers, (&places, seen), seed);
        let flow = layers.backward(inputs, flow, &mut take);
        self.model
            .embedding_gradients(input_ids, seen, flow, &mut take);
        losses.detached()
    }
}

impl Losses {
    fn detached(self) -> Self {
        Self {
            total: self.total.without_autodiff(),
            next_token: self.next_token.without_autodiff(),
            load_balancing: self.load_balancing.map(Tensor::without_autodiff),
            hidden: self.hidden,
        }
    }
}

impl Decoder {
    fn embedding_gradients(
        &self,
        input_ids: Tensor<2, Int>,
        seen: Option<&SeenPictures>,
        flow: Residual,
        take: &mut impl FnMut(Gradients),
    ) {
        let embedded = inserted(seen, self.embed(input_ids));
        if embedded.is_tracked() {
            take(Residual::new(embedded).times(flow).backward());
        }
    }
}

/// The layers of a model, and the places of the tokens that pass through them, with the pictures among these.
struct Layers<'a> {
    config: &'a ModelConfig,
    layers: &'a [DecoderLayer],
    places: &'a Places,
    seen: Option<&'a SeenPictures>,
    seed: u64,
}

/// The gradients of the layers' outputs.
struct Flow {
    /// The gradient of the residual stream behind a layer.
    residual: Residual,
    /// The gradients of the routers' logits of all layers that have some.
    routers: Vec<Option<Tensor<2>>>,
}

impl<'a> Layers<'a> {
    fn new(
        config: &'a ModelConfig,
        layers: &'a [DecoderLayer],
        (places, seen): (&'a Places, Option<&'a SeenPictures>),
        seed: u64,
    ) -> Self {
        Self {
            config,
            layers,
            places,
            seen,
            seed,
        }
    }

    fn layer(&self, index: usize, residual: Residual) -> (Residual, Option<Tensor<2>>) {
        residual.device().seed(self.seed.wrapping_add(index as u64));
        let _layer = burn_kernels::policy::layer(index, self.layers.len());
        let place = self.places.of(self.config, index);
        let passed = self.layers[index].forward(residual, place, None);
        let (output, router_logits) = passed.expect("a pass without a cache has no error of one");
        match self.seen {
            Some(seen) => (seen.add(index, output), router_logits),
            None => (output, router_logits),
        }
    }

    /// Returns the input of each layer, the output of the last one, and the routers' logits of each.
    fn forward(&self, mut residual: Residual) -> (Vec<Residual>, Residual, Vec<Option<Tensor<2>>>) {
        let (mut inputs, mut routers) = (Vec::new(), Vec::new());
        for index in 0..self.layers.len() {
            inputs.push(residual.clone());
            let (output, router_logits) = self.layer(index, residual);
            residual = output;
            routers.push(router_logits);
        }
        (inputs, residual, routers)
    }

    /// Passes on the gradients of each layer's parameters. Returns that of the first layer's input.
    fn backward(
        &self,
        mut inputs: Vec<Residual>,
        flow: Flow,
        take: &mut impl FnMut(Gradients),
    ) -> Residual {
        let Flow {
            mut residual,
            mut routers,
        } = flow;
        while let Some(input) = inputs.pop() {
            let input = input.leaf();
            let (output, router_logits) = self.layer(inputs.len(), input.clone());
            // Its gradients are those of the model's loss.
            let mut product = output.times(residual);
            if let (Some(logits), Some(flow)) = (router_logits, routers.pop().flatten()) {
                product = product + (logits * flow.autodiff()).sum();
            }
            let mut gradients = product.backward();
            residual = input.gradient(&mut gradients);
            take(gradients);
        }
        residual
    }
}

impl Residual {
    /// Returns the stream as the beginning of a graph.
    fn leaf(self) -> Self {
        self.map(leaf)
    }

    /// Removes and returns the gradient of a [`leaf`](Self::leaf).
    fn gradient(&self, gradients: &mut Gradients) -> Self {
        let mut of = |tensor: Tensor<3>| tensor.grad_remove(gradients).expect(UNUSED);
        self.clone().map(&mut of)
    }

    /// Returns the sum of all products with another stream, which is a constant.
    fn times(self, other: Self) -> Tensor<1> {
        let products = self.zip(other, |x, y| (x * y.autodiff()).sum());
        products
            .into_iter()
            .reduce(|x, y| x + y)
            .expect("a sum at least")
    }
}

fn leaf<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    tensor.detach().require_grad()
}
