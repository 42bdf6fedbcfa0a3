/*
 * cmd_driver_troubles.c - kda driver status: the state of each sensor, and the calls that failed.
 */
#include "driver.h"

#include "control.h"

static void put_cause(FILE *to, const struct control_failure *cause)
{
    (void)fprintf(to, "%s 0x%08x in %s", cause->call, cause->status, cause->place);
}

void driver_put_troubles(FILE *to, const struct control_troubles *troubles, bool all)
{
    char time[CONTROL_TIME_TEXT];
    (void)fprintf(to, "\n%-10s %-9s %-29s %s\n", "sensor", "state", "since", "because of");
    for (size_t i = 0; i < troubles->sensor_count; i++) {
        const struct control_sensor *sensor = &troubles->sensors[i];
        time[0] = '-';
        time[1] = '\0';
        if (sensor->since != 0)
            control_time(sensor->since, time);
        (void)fprintf(to, "%-10s %-9s %-29s ", sensor->name, sensor->state, time);
        if (sensor->troubled)
            put_cause(to, &sensor->cause);
        (void)fputc('\n', to);
    }
    if (!all)
        return;
    (void)fprintf(to, "\n%llu calls of the system failed since the start\n",
                  (unsigned long long)troubles->total);
    for (size_t i = 0; i < troubles->failure_count; i++) {
        const struct control_failure *failure = &troubles->failures[i];
        control_time(failure->last, time);
        (void)fprintf(to, "%s %8llu  ", time, (unsigned long long)failure->count);
        put_cause(to, failure);
        (void)fputc('\n', to);
    }
}

static void put_json_cause(FILE *to, const struct control_failure *cause)
{
    (void)fputs("\"call\":", to);
    driver_put_string(to, cause->call);
    (void)fputs(",\"place\":", to);
    driver_put_string(to, cause->place);
    (void)fprintf(to, ",\"status\":\"0x%08x\"", cause->status);
}

void driver_put_json_troubles(FILE *to, const struct control_troubles *troubles)
{
    char time[CONTROL_TIME_TEXT];
    const char *comma = "";
    (void)fputs(",\"sensors\":{", to);
    for (size_t i = 0; i < troubles->sensor_count; i++, comma = ",") {
        const struct control_sensor *sensor = &troubles->sensors[i];
        (void)fputs(comma, to);
        driver_put_string(to, sensor->name);
        (void)fprintf(to, ":{\"state\":\"%s\"", sensor->state);
        if (sensor->since != 0) {
            control_time(sensor->since, time);
            (void)fprintf(to, ",\"since\":\"%s\"", time);
        }
        if (sensor->troubled) {
            (void)fputc(',', to);
            put_json_cause(to, &sensor->cause);
        }
        (void)fputc('}', to);
    }
    (void)fprintf(to, "},\"failed_calls\":{\"total\":%llu,\"last\":[",
                  (unsigned long long)troubles->total);
    comma = "";
    for (size_t i = 0; i < troubles->failure_count; i++, comma = ",") {
        const struct control_failure *failure = &troubles->failures[i];
        (void)fprintf(to, "%s{", comma);
        put_json_cause(to, failure);
        control_time(failure->last, time);
        (void)fprintf(to, ",\"count\":%llu,\"last\":\"%s\"}", (unsigned long long)failure->count,
                      time);
    }
    (void)fputs("]}", to);
}

bool driver_sensors_whole(const struct cli *cli, const struct control_troubles *troubles)
{
    bool whole = true;
    for (size_t i = 0; i < troubles->sensor_count; i++) {
        const struct control_sensor *sensor = &troubles->sensors[i];
        if (!sensor->troubled)
            continue;
        whole = false;
        cli_note(cli, "the %s sensor is %s: %s ended with 0x%08x", sensor->name, sensor->state,
                 sensor->cause.call, sensor->cause.status);
    }
    return whole;
}
