use super::folder::HuntFolder;
use super::limited::Limited;
use super::observer::HuntObserver;
use super::progress::Progress;
use super::request::HuntRequest;
use crate::player::Player;
use crate::schedule::Schedule;
use fencepost_checker::Violation;
use fencepost_engine::Stop;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A hunt that can begin, or go on.
pub struct Hunt {
    pub folder: HuntFolder,
    pub(super) request: HuntRequest,
    pub(super) progress: Mutex<Progress>,
    pub(super) player: Limited,
    pub(super) stop: Arc<Stop>,
    pub(super) program: String,
    pub(super) observer: Arc<dyn HuntObserver>,
    pub(super) found: Mutex<VecDeque<Found>>,
    /// Why it ends before its time is over.
    pub(super) ended: Mutex<Option<String>>,
}

/// What a hunt is carried out with.
pub struct HuntParts {
    pub player: Arc<dyn Player>,
    pub program: String,
    pub stop: Arc<Stop>,
    pub observer: Arc<dyn HuntObserver>,
}

#[derive(Clone)]
pub(super) struct Found {
    pub name: String,
    pub violation: Violation,
    pub schedule: Schedule,
}
