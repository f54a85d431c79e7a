//! `gt check`

use std::cell::Cell;

use anyhow::Result;
use clap::Args;
use gt_nn::cuda::{CudaDevice, Precision};
use gt_nn::{CheckLine, check, tolerance};
use serde::Serialize;

use super::CheckFailed;
use crate::cache::kernel_cache;
use crate::console;
use crate::device::{DeviceChoice, PrecisionName};

/// Compare a device with a reference in f64 on built-in problems: outputs, loss, gradients, an
/// optimiser step, inference. Errors are relative to the largest value of their kind.
#[derive(Args)]
#[command(after_help = "Examples:\n  gt check --device cpu\n  gt check --device cuda --precision tf32")]
pub struct Arguments {
    /// auto, cpu, cuda or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of products on a GPU [default: all]
    #[arg(long, value_enum)]
    precision: Option<PrecisionName>,
    /// Print a line of JSON per problem
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    device: &'a str,
    precision: &'static str,
    problem: &'a str,
    outputs: f64,
    loss: f64,
    gradients: f64,
    worst_parameter: &'a str,
    step: f64,
    inference: f64,
    tolerance: f64,
    good: bool,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let device = match self.precision {
            Some(precision) => self.device.open_for(precision)?,
            None => self.device.open()?,
        };
        let precisions = match (&device, self.precision) {
            (None, _) => vec![Precision::F32],
            (_, Some(one)) => vec![one.precision()],
            (_, None) => Precision::ALL.to_vec(),
        };
        let failed = Cell::new(0);
        let printed = Cell::new(Ok(()));
        for precision in precisions {
            let name = device.as_ref().map_or("cpu", CudaDevice::name);
            if !self.json {
                console::print(&format!(
                    "{name}, {}, tolerance {:.0e}\n{:36} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                    precision.name(),
                    tolerance(precision),
                    "",
                    "outputs",
                    "loss",
                    "gradients",
                    "step",
                    "inference"
                ))?;
            }
            let report = |line: CheckLine| {
                failed.set(failed.get() + usize::from(!line.good));
                let result = if self.json { print_json(name, precision, &line) } else { print_text(&line) };
                if result.is_err() {
                    printed.set(result);
                }
            };
            check(device.as_ref(), precision, kernel_cache().as_deref(), report)?;
        }
        printed.into_inner()?;
        match failed.get() {
            0 => Ok(()),
            count => {
                let text = format!("{count} of the built-in problems are off: this device does not compute right");
                Err(CheckFailed(text).into())
            }
        }
    }
}

fn print_text(line: &CheckLine) -> Result<()> {
    let CheckLine { problem, outputs, loss, gradients, step, inference, good, worst } = line;
    let verdict = if *good { String::new() } else { format!("  OFF, gradients most at {worst}") };
    console::print(&format!(
        "{problem:36} {outputs:9.1e} {loss:9.1e} {gradients:9.1e} {step:9.1e} {inference:9.1e}{verdict}\n"
    ))
}

fn print_json(device: &str, precision: Precision, line: &CheckLine) -> Result<()> {
    console::print_json(&Line {
        device,
        precision: precision.name(),
        problem: &line.problem,
        outputs: line.outputs,
        loss: line.loss,
        gradients: line.gradients,
        worst_parameter: &line.worst,
        step: line.step,
        inference: line.inference,
        tolerance: tolerance(precision),
        good: line.good,
    })
}
