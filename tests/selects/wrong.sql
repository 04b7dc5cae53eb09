-- unknown-column 1:8
SELECT ammount FROM lake.shop.orders;

-- unknown-column 1:10
SELECT o.ammount FROM lake.shop.orders AS o;

-- unknown-column 3:7
SELECT order_id
FROM lake.shop.orders
WHERE state = 'paid';

-- unknown-alias 1:8
SELECT orders.order_id FROM lake.shop.orders AS o;

-- unknown-alias 1:18
SELECT o.amount, c.name FROM lake.shop.orders o;

-- unknown-alias 1:8
SELECT x.* FROM lake.shop.orders o;

-- unknown-field 1:16
SELECT address.town FROM lake.shop.orders;

-- unknown-field 1:20
SELECT address.geo.long FROM lake.shop.orders;

-- unknown-field 1:18
SELECT o.address.strasse AS street FROM lake.shop.orders o;

-- unknown-field 1:14
SELECT items.name FROM lake.shop.orders;

-- unknown-column 1:90
SELECT order_id FROM lake.shop.orders JOIN lake.shop.customers USING (customer_id) WHERE id > 1
-- the USING is right, the WHERE is not;

-- unknown-column 3:33
SELECT o.order_id
FROM lake.shop.orders AS o
JOIN lake.shop.customers c ON c.id = o.customer_id;

-- unknown-column 2:8
WITH paid AS (SELECT order_id, amount AS eur FROM lake.shop.orders)
SELECT amount FROM paid;

-- unknown-column 1:64
WITH paid AS (SELECT * FROM lake.shop.orders) SELECT order_id, ordered_at FROM paid;

-- unknown-column 1:56
SELECT amount * 2 AS twice FROM lake.shop.orders WHERE twice > 10;

-- unknown-column 1:61
SELECT status, count(*) AS n FROM lake.shop.orders GROUP BY state;

-- unknown-column 1:75
SELECT status, count(*) AS n FROM lake.shop.orders GROUP BY status HAVING m > 1;

-- unknown-column 1:8
SELECT label FROM (SELECT name FROM lake.shop.customers UNION ALL SELECT status FROM lake.shop.orders);

-- unknown-column 1:39
SELECT transform(tags, t -> concat(t, suffix)) AS x FROM lake.shop.orders;

-- unknown-column 1:95
SELECT name FROM lake.shop.customers c WHERE EXISTS (SELECT 1 FROM lake.shop.orders o WHERE o.buyer = c.customer_id);

-- unknown-column 1:8
SELECT tagg FROM lake.shop.orders LATERAL VIEW explode(tags) t AS tag;

-- unknown-column 1:55
SELECT tag FROM lake.shop.orders LATERAL VIEW explode(labels) t AS tag;

-- unknown-column 1:60
SELECT name, row_number() OVER (PARTITION BY dept ORDER BY pay) AS n FROM lake.shop.employees;

-- unknown-column 1:13
SELECT a, v.name FROM lake.shop.numbers n JOIN (VALUES (1, 'x')) AS v(id, label) ON v.id = n.a;

-- unknown-alias 1:14
-- unknown-column 1:8
-- unknown-column 1:11
SELECT x, y, z.a FROM lake.shop.numbers;

-- unknown-column 1:47
SELECT name FROM lake.shop.customers ORDER BY nme;

-- unknown-column 1:8
SELECT colour FROM VALUES (1, 'red') AS t(id, color);

-- unknown-alias 1:119
SELECT o.order_id FROM lake.shop.orders o LEFT SEMI JOIN lake.shop.customers c ON c.customer_id = o.customer_id WHERE c.country = 'DE';
