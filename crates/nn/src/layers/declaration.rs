//! How a branch declares its parameters: published names, shapes, initial weights, and where they
//! lie in the engine.

use crate::network::Network;
use crate::parameters::{Affine, Axis, BranchRegions, Form, Init, Parameters, Region, Role};

/// The parameters of one branch of one layer, while they are declared. The order of the calls is
/// the order of the parameters in files, and of the regions in [`BranchRegions`].
#[derive(Debug)]
pub(crate) struct Declaration<'a> {
    parameters: &'a mut Parameters,
    regions: &'a mut BranchRegions,
    pub(crate) network: &'a Network,
    pub(crate) layer: usize,
}

impl<'a> Declaration<'a> {
    pub(crate) fn new(
        parameters: &'a mut Parameters,
        regions: &'a mut BranchRegions,
        network: &'a Network,
        layer: usize,
    ) -> Self {
        Self { parameters, regions, network, layer }
    }

    fn stream(&self) -> Axis {
        Axis::Stream(self.network.channels)
    }

    fn role(&self, name: &'static str) -> Role {
        Role::Branch(self.layer, name)
    }

    /// Keeps a region as the next of the branch.
    fn keep(&mut self, region: Region) {
        self.regions.regions[self.regions.count] = region;
        self.regions.count += 1;
    }

    /// A region that this network does not have.
    pub(crate) fn nothing(&mut self) {
        self.keep(Region::default());
    }

    /// A matrix from stream to stream, published `[out, in]`.
    pub(crate) fn matrix(&mut self, name: &'static str, init: Init) {
        let (stream, role) = (self.stream(), self.role(name));
        let width = stream.padded();
        let region = self.parameters.region(width, width);
        let form = Form::Matrix { input: stream, output: stream, stride: width, column: 0 };
        self.parameters.push(role, init, region.offset, form);
        self.parameters.transposed.push(region);
        self.keep(region);
    }

    /// A matrix from stream to stream, published `[in, out]`.
    pub(crate) fn matrix_in_out(&mut self, name: &'static str, init: Init) {
        let (stream, role) = (self.stream(), self.role(name));
        let region = self.parameters.region(stream.padded(), stream.padded());
        self.parameters.push(role, init, region.offset, Form::InOut { input: stream, output: stream });
        self.parameters.transposed.push(region);
        self.keep(region);
    }

    /// A vector of the stream's channels.
    pub(crate) fn vector(&mut self, name: &'static str, init: Init) {
        let (stream, role) = (self.stream(), self.role(name));
        let region = self.parameters.vector(stream, role, init);
        self.keep(region);
    }

    /// A vector of the stream's channels, published `[1, heads, channels per head]`.
    pub(crate) fn vector_of_heads(&mut self, name: &'static str, heads: usize, init: Init) {
        let (axis, role) = (self.stream(), self.role(name));
        let region = self.parameters.region(1, axis.padded());
        self.parameters.push(role, init, region.offset, Form::Heads { axis, heads });
        self.keep(region);
    }

    /// A linear layer from stream to stream: a matrix and a bias.
    pub(crate) fn linear(&mut self, [weight, bias]: [&'static str; 2]) {
        self.matrix(weight, Init::Linear);
        self.vector(bias, Init::Linear);
    }

    /// Matrices from stream to stream that are applied as one product: one region, whose columns
    /// are those of the matrices in their order.
    pub(crate) fn joined_matrices(&mut self, names: &[&'static str]) {
        let (stream, width) = (self.stream(), self.stream().padded());
        let stride = names.len() * width;
        let region = self.parameters.region(width, stride);
        for (number, &name) in names.iter().enumerate() {
            let form = Form::Matrix { input: stream, output: stream, stride, column: number * width };
            self.parameters.push(Role::Branch(self.layer, name), Init::Linear, region.offset, form);
        }
        self.parameters.transposed.push(region);
        self.keep(region);
    }

    /// Linear layers from stream to stream that are applied as one product: a region of all
    /// matrices, and one of all biases.
    pub(crate) fn joined_linears(&mut self, names: &[[&'static str; 2]]) {
        let (stream, width) = (self.stream(), self.stream().padded());
        let stride = names.len() * width;
        let (weight, bias) = (self.parameters.region(width, stride), self.parameters.region(1, stride));
        for (number, names) in names.iter().enumerate() {
            let column = number * width;
            let form = Form::Matrix { input: stream, output: stream, stride, column };
            let [weight_role, bias_role] = names.map(|name| Role::Branch(self.layer, name));
            self.parameters.push(weight_role, Init::Linear, weight.offset, form);
            self.parameters.push(bias_role, Init::Linear, bias.offset + column, Form::Vector(stream));
        }
        self.parameters.transposed.push(weight);
        self.keep(weight);
        self.keep(bias);
    }
}

impl BranchRegions {
    /// Weight and bias of a linear layer, which are two consecutive regions.
    pub(crate) fn linear(&self, first: usize) -> Affine {
        Affine { weight: self.regions[first], bias: self.regions[first + 1] }
    }
}
