//! Verification: every number of a bundle is recomputed from its raw data.

use lab::compare::{Comparison, Trial};
use lab::record::RunRecord;
use lab::verdict::judge;

use crate::bundle::{Body, Bundle, SearchRecord};
use crate::costs::CostRecord;
use crate::cpus::CpuExperiments;
use crate::event::EventRecord;
use crate::fabric::FabricStudy;
use crate::soak::SoakRecord;
use crate::study::Study;
use crate::sweep::Sweep;
use crate::{Result, html};

/// Everything in a bundle that does not follow from its raw data, a line each; empty: it is right.
pub fn errors(bundle: &Bundle) -> Vec<String> {
    let mut errors: Vec<String> = bundle.runs.iter().flat_map(|run| run.errors()).collect();
    if bundle.header.commands.is_empty() {
        errors.push("the header names no command".into());
    }
    let cpus = bundle.header.manifest.cpu.cores.len();
    for run in &bundle.runs {
        let rows = run.interrupts.sources.values().chain([&run.interrupts.net_rx]);
        if cpus > 0 && rows.into_iter().any(|row| row.len() > 4_096) {
            errors.push(format!("run {:?}: interrupts of too many CPUs", run.label));
        }
    }
    match &bundle.body {
        Body::Compare(comparison) => check_comparison(comparison, &mut errors),
        Body::Search(search) => check_search(search, &bundle.runs, &mut errors),
        Body::Sweep(sweep) => {
            let costs = sweep.points.iter().filter_map(|point| point.costs.as_deref());
            errors.extend(costs.flat_map(CostRecord::errors));
            let again = Sweep::new(&sweep.scale, sweep.points.clone(), &bundle.runs);
            if again.as_ref() != Ok(sweep) {
                errors.push("sweep: rates or fits do not follow from the runs".into());
            }
        }
        Body::Study(study) => {
            let Study { name, quick, cpus, steps, .. } = study;
            let again = Study::new(*name, *quick, *cpus, steps.clone(), &bundle.runs);
            if again.as_ref() != Ok(study) {
                errors
                    .push("study: ranges, findings or the original's figures do not follow".into());
            }
        }
        Body::Cpus(all) => {
            let again = CpuExperiments::new(all.quick, all.cpus, all.steps.clone(), &bundle.runs);
            if again.as_ref() != Ok(all) {
                errors.push("cpus: figures or findings do not follow from the runs".into());
            }
        }
        Body::Fabric(study) => {
            if FabricStudy::new(study.clone()).as_ref() != Ok(study) {
                errors.push("fabric: findings or the article's figures do not follow".into());
            }
        }
    }
    errors
}

/// Derives verdicts, fits and findings again from the raw data by the rules of this version, which
/// may differ from those of the version that measured.
///
/// # Errors
/// The raw data contradicts itself.
pub fn derive_again(bundle: &mut Bundle) -> Result<()> {
    bundle.runs.iter_mut().for_each(RunRecord::derive_again);
    let runs = &bundle.runs;
    match &mut bundle.body {
        Body::Compare(comparison) => {
            for server in comparison.servers.iter_mut().chain([&mut comparison.again]) {
                for round in &mut server.rounds {
                    let trials = round.best.iter_mut().chain([&mut round.most, &mut round.common]);
                    trials.for_each(|trial| trial.verdict = judge(&trial.measurements));
                }
            }
        }
        Body::Search(search) => search.results = search.replay(runs)?,
        Body::Sweep(sweep) => *sweep = Sweep::new(&sweep.scale, sweep.points.clone(), runs)?,
        Body::Study(study) => {
            let Study { name, quick, cpus, steps, .. } = &*study;
            *study = Study::new(*name, *quick, *cpus, steps.clone(), runs)?;
        }
        Body::Cpus(all) => {
            *all = CpuExperiments::new(all.quick, all.cpus, all.steps.clone(), runs)?;
        }
        Body::Fabric(study) => *study = FabricStudy::new(study.clone())?,
    }
    match errors(bundle) {
        errors if errors.is_empty() => Ok(()),
        errors => Err(format!("{} errors:\n  {}", errors.len(), errors.join("\n  "))),
    }
}

fn check_search(search: &SearchRecord, runs: &[RunRecord], errors: &mut Vec<String>) {
    match search.replay(runs) {
        Ok(results) if results == search.results => {}
        Ok(_) => errors.push("search: the results do not follow from the trials".into()),
        Err(why) => errors.push(why),
    }
    if let Some(soak) = &search.soak {
        let again = SoakRecord::new(soak.run, soak.memory.clone(), runs);
        if again.as_ref() != Ok(soak) {
            errors.push("soak: its numbers do not follow from its run and samples".into());
        }
    }
    errors.extend(search.event.as_ref().and_then(EventRecord::error));
}

fn check_comparison(comparison: &Comparison, errors: &mut Vec<String>) {
    for server in comparison.servers.iter().chain([&comparison.again]) {
        for round in &server.rounds {
            for trial in round.best.iter().chain([&round.most, &round.common]) {
                if let Err(why) = check_trial(trial, comparison.seconds) {
                    errors.push(format!("{}: {why}", server.name));
                }
            }
        }
    }
    if let Err(why) = lab::compare::summarise(comparison) {
        errors.push(why);
    }
}

fn check_trial(trial: &Trial, seconds: f64) -> Result<()> {
    let load = &trial.measurements.load;
    let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    let in_time = load.answered as f64 / load.planned.max(1) as f64;
    if !is_near(in_time, trial.in_time) || !is_near(load.answered as f64 / seconds, trial.answered)
    {
        return Err("a trial's rates do not follow from its counts".into());
    }
    match judge(&trial.measurements) == trial.verdict {
        true => Ok(()),
        false => Err("a trial's verdict does not follow from its measurements".into()),
    }
}

/// Verifies a bundle's or a report's text; the bundle, if it is right.
///
/// # Errors
/// It cannot be read, was changed, or has numbers that do not follow from its raw data.
pub fn verify(text: &str) -> Result<Bundle> {
    let is_report = text.trim_start().starts_with("<!DOCTYPE");
    let bundle = match is_report {
        true => html::bundle_of(text)?,
        false => Bundle::parse(text)?,
    };
    let errors = errors(&bundle);
    if !errors.is_empty() {
        return Err(format!("{} errors:\n  {}", errors.len(), errors.join("\n  ")));
    }
    if is_report && html::report(&bundle) != text {
        return Err("the report is not what its bundle gives: it was changed, or another version \
                    of dunlin-lab wrote it; `dunlin-lab report` writes it again"
            .into());
    }
    Ok(bundle)
}
