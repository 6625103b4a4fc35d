//! Before the first node: the plan fits the driver, and servers that exist already are what the lock needs.

use super::context::RunContext;
use super::nodes::RunNodes;
use crate::existing::Existing;
use crate::settings::node_specs::{node_specs, run_name};
use crate::settings::validation::RunSpec;
use anyhow::{Result, bail};
use fencepost_cluster::{ClusterSpec, Driver};
use fencepost_history::run::RunFile;
use std::sync::{Arc, OnceLock};

/// A run whose nodes can be started. Its folder has the settings and the plan.
pub(super) struct Prepared {
    spec: RunSpec,
    file: RunFile,
    driver: Box<dyn Driver>,
    cluster: ClusterSpec,
    existing: Option<Arc<Existing>>,
}

impl Prepared {
    pub(super) async fn fitted(spec: &RunSpec, command: &str, context: &RunContext<'_>) -> Result<Prepared> {
        let RunContext { folder, stop, observer } = context;
        let mut file = spec.options.run_file(command.to_owned());
        file.lock = Some(spec.lock.facts(&spec.options.lock_options, None, &[]));
        folder.write_run(&file)?;
        let driver = fencepost_cluster::select(&spec.options.driver).await?;
        file.driver = driver.name().to_owned();
        file.engine = driver.about().await;
        let spec = fitted(spec, driver.as_ref()).await?;
        folder.write("plan.toml", spec.plan.to_toml().as_bytes())?;
        observer.planned(&spec.plan);
        let cluster = ClusterSpec { run: run_name(&spec), nodes: node_specs(&spec), logs: folder.logs() };
        let existing = stop.unless_pulled(Existing::of(&spec, &cluster.run)).await?;
        if let Some(existing) = &existing {
            file.servers = stop.unless_pulled(existing.look()).await?;
            folder.write_run(&file)?;
        }
        Ok(Prepared { spec, file, driver, cluster, existing })
    }

    pub(super) async fn start_nodes(self, context: &RunContext<'_>) -> Result<RunNodes> {
        let Prepared { spec, file, driver, cluster, existing } = self;
        let (cleaned, clean_up) = fencepost_cluster::clean_up_before(driver.as_ref()).await?;
        context.report_cleaned(&cleaned);
        let starting = async { Ok(driver.start(&cluster).await?) };
        let cluster = context.stop.unless_pulled(starting).await?;
        Ok(RunNodes { spec, file, driver, cluster, existing, clean_up, serving: OnceLock::new() })
    }
}

/// The nemeses of a swarm are drawn from what this driver offers here. Refuses a nemesis that needs more.
async fn fitted(spec: &RunSpec, driver: &dyn Driver) -> Result<RunSpec> {
    if spec.nemeses.is_empty() {
        return Ok(spec.clone());
    }
    let offered = driver.supports().await;
    let spec = spec.fitted(&offered)?;
    for nemesis in &spec.nemeses {
        if let Some(unmet) = nemesis.description().unmet(&offered) {
            bail!(
                "the nemesis {} needs {unmet}, which the driver {} does not offer on this machine; `fencepost doctor` says why",
                nemesis.name(),
                driver.name()
            );
        }
    }
    Ok(spec)
}
