//! The stories, one file each.

mod chubby_lock_delay;
mod chubby_sequencer;
mod etcd_18_percent;
mod etcd_clock_jump;
mod etcd_leader_killed;
mod etcd_lease_pause;
mod etcd_no_recheck;
mod fence_epoch_quorum;
mod fence_racy_check;
mod fence_unique_token;
mod hadoop_fencing;
mod patterns;
mod postgres_row_lock;
mod redis_check_then_pause;
mod redis_clock_back;
mod redis_clock_jump;
mod redis_crash_no_fsync;
mod redis_expiry_pause;
mod redis_failover;
mod redis_failover_wait;
mod redis_fixed_value;
mod redis_get_del;
mod redis_lua_release;
mod redis_no_ttl;
mod redis_packet_delay;
mod redis_setnx_expire;
mod redis_watchdog;
mod redlock_client_wall_clock;
mod redlock_clock_jump;
mod redlock_crash_no_fsync;
mod redlock_delayed_restart;
mod redlock_delayed_restart_clock;
mod redlock_drift;
mod redlock_fsync_always;
mod redlock_lost_reply;
mod redlock_no_elapsed_check;
mod redlock_pause_after_acquire;
mod redlock_pause_before_replies;
mod redlock_quiet;
mod redlock_split_vote;
mod redlock_token_counter;
mod zookeeper_clock_jump;
mod zookeeper_herd;
mod zookeeper_session_pause;

use super::Scenario;

/// Every scenario, in the order of the debate: one Redis node, Redis with replicas, Redlock, consensus, fencing.
pub fn registry() -> &'static [&'static Scenario] {
    &[
        &redis_expiry_pause::SCENARIO,
        &redis_check_then_pause::SCENARIO,
        &redis_packet_delay::SCENARIO,
        &redis_setnx_expire::SCENARIO,
        &redis_no_ttl::SCENARIO,
        &redis_fixed_value::SCENARIO,
        &redis_get_del::SCENARIO,
        &redis_lua_release::SCENARIO,
        &redis_clock_jump::SCENARIO,
        &redis_clock_back::SCENARIO,
        &redis_crash_no_fsync::SCENARIO,
        &redis_watchdog::SCENARIO,
        &redis_failover::SCENARIO,
        &redis_failover_wait::SCENARIO,
        &redlock_quiet::SCENARIO,
        &redlock_clock_jump::SCENARIO,
        &redlock_crash_no_fsync::SCENARIO,
        &redlock_fsync_always::SCENARIO,
        &redlock_delayed_restart::SCENARIO,
        &redlock_delayed_restart_clock::SCENARIO,
        &redlock_pause_before_replies::SCENARIO,
        &redlock_no_elapsed_check::SCENARIO,
        &redlock_pause_after_acquire::SCENARIO,
        &redlock_client_wall_clock::SCENARIO,
        &redlock_drift::SCENARIO,
        &redlock_lost_reply::SCENARIO,
        &redlock_split_vote::SCENARIO,
        &redlock_token_counter::SCENARIO,
        &zookeeper_session_pause::SCENARIO,
        &zookeeper_clock_jump::SCENARIO,
        &zookeeper_herd::SCENARIO,
        &etcd_lease_pause::SCENARIO,
        &etcd_18_percent::SCENARIO,
        &etcd_no_recheck::SCENARIO,
        &etcd_clock_jump::SCENARIO,
        &etcd_leader_killed::SCENARIO,
        &fence_racy_check::SCENARIO,
        &fence_unique_token::SCENARIO,
        &fence_epoch_quorum::SCENARIO,
        &chubby_sequencer::SCENARIO,
        &chubby_lock_delay::SCENARIO,
        &hadoop_fencing::SCENARIO,
        &postgres_row_lock::SCENARIO,
    ]
}
