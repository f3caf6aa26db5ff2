do $plant$
declare one record; many integer := 0;
begin
    for one in
        select p.proname, pg_catalog.oidvectortypes(p.proargtypes) as arguments,
               pg_catalog.format_type(p.prorettype, null) as result
          from pg_catalog.pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace
    loop
        begin
            execute pg_catalog.format(
                'create function public.%I(%s) returns %s language plpgsql as %L', one.proname, one.arguments, one.result,
                pg_catalog.format('begin raise exception %L; end', 'trapped by ' || one.proname));
            many := many + 1;
        exception when others then null; -- internal, cstring and the like are for superusers
        end;
    end loop;
    if many < 1500 then raise 'only % functions', many; end if;
    many := 0;
    for one in
        select o.oid, o.oprname, o.oprleft::regtype as lefttype, o.oprright::regtype as righttype, o.oprresult::regtype as result
          from pg_catalog.pg_operator o where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprleft <> 0
    loop
        begin
            execute pg_catalog.format(
                'create function public.trap_%s(%s, %s) returns %s language plpgsql as %L', one.oid, one.lefttype, one.righttype,
                one.result, pg_catalog.format('begin raise exception %L; end', 'trapped by operator ' || one.oprname));
            execute pg_catalog.format(
                'create operator public.%s (function = public.trap_%s, leftarg = %s, rightarg = %s)', one.oprname, one.oid,
                one.lefttype, one.righttype);
            many := many + 1;
        exception when others then null;
        end;
    end loop;
    if many < 600 then raise 'only % operators', many; end if;
end $plant$;
create function public.format(text, text) returns text language plpgsql as 'begin raise exception ''trapped''; end';
create function public.format(text, regrole) returns text language plpgsql as 'begin raise exception ''trapped''; end';
create function public.pg_has_role(name, regrole, unknown_ text default '') returns boolean language plpgsql as 'begin raise exception ''trapped''; end';
create function public.pg_has_role(oid, regrole, text) returns boolean language plpgsql as 'begin raise exception ''trapped''; end';
create function public.count(text) returns bigint language plpgsql as 'begin raise exception ''trapped''; end';
create function public.trap(regrole, regrole) returns boolean language plpgsql as 'begin raise exception ''trapped''; end';
create operator public.= (function = public.trap, leftarg = regrole, rightarg = regrole);
