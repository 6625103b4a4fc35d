# pgbouncer with its defaults but for `pool_mode`; for `sh pooler.sh ADDRESS PORT DATABASE`.
cat > /tmp/pgbouncer.ini <<INI
[databases]
* = host=$3 port=5432 user=postgres
[pgbouncer]
listen_addr = $1
listen_port = $2
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = extra_float_digits
INI
exec setpriv --reuid=postgres --regid=postgres --clear-groups /usr/sbin/pgbouncer /tmp/pgbouncer.ini
