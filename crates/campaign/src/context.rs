//! What all runs of a campaign are played with.

use crate::lines::LinePrinter;
use crate::repeat::Repeat;
use crate::run_player::RunPlayer;
use async_trait::async_trait;
use fencepost_engine::Stop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where folders go that are finished, if they do not stay on this machine alone.
#[async_trait]
pub trait ResultsStore: Send + Sync {
    /// Sends a folder in which nothing more is written. A failure is reported, and is none of its run.
    async fn send(&self, folder: &Path);
}

#[derive(Clone)]
pub struct CampaignContext {
    pub player: Arc<dyn RunPlayer>,
    pub results: PathBuf,
    pub store: Arc<dyn ResultsStore>,
    /// Ctrl-C ends all runs.
    pub stop: Arc<Stop>,
    pub repeat: Repeat,
    pub lines: Arc<dyn LinePrinter>,
}
