use std::time::Duration;

/// What a hunt reports while it goes on.
pub trait HuntObserver: Send + Sync {
    /// Something worth a line: a finding, a failure, the end of a step.
    fn message(&self, sentence: &str);
    fn progress(&self, status: &Status);
}

#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub spent: Duration,
    pub budget: Duration,
    pub schedules: u64,
    pub per_minute: f64,
    pub covered: u64,
    pub possible: u64,
    pub nearest_ms: Option<f64>,
    /// Findings against this lock.
    pub findings: u64,
    /// `4 violations that redis-single shows too`.
    pub shared: Option<String>,
}
